// The first product of a gradient writes it instead of adding to zeros.
//
// Templates add to gradients, since most calls find something there. The call that begins a leaf
// finds nothing: where the first op that touches some bytes of the gradient is a product over all
// of them, a second template, called in the first one's place, has it write. Zeros are left for
// the rest: vectors, sums of another kind (a lookup's), padding.
//
// Gradients of vectors that lie side by side belong to many calls, and begin with zeros as a whole.
// So do bytes that a use after the leaf's first one touches first, and what ranks move about inside
// of a template.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_FIRST_PRODUCTS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_FIRST_PRODUCTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/compose/sources/stage.h"

namespace strata::program {

class FirstProducts {
 public:
  explicit FirstProducts(const Stage& stage) : stage_(stage) {}

  // Of the uses in order.
  void Before(const Use& use);
  // The use is the first to add to the gradient at `place`, which is that of `set`, in
  // LayerGraph::sets; -1: of several.
  void Begin(int set, const Operand& place, const std::string& label);
  // To be called for the use, after all that begins with it.
  int TemplateToCall();

 private:
  // The first products on one formal of a template: their ops, and what they write of it,
  // ascending.
  struct Found {
    std::vector<int> ops;
    std::vector<std::pair<int64_t, int64_t>> ranges;
  };

  const Found& Find(int template_index, int formal);

  const Stage& stage_;
  Use use_;
  std::vector<int> begun_;  // formals of the use's template
  std::map<std::pair<int, int>, Found> found_;
  std::map<std::pair<int, std::vector<int>>, int> writing_;  // templates, by template and formals
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_FIRST_PRODUCTS_H_
