// What is done to a text before it is cut into words.
#ifndef STRATA_DATA_TOKENIZER_NORMALIZER_H_
#define STRATA_DATA_TOKENIZER_NORMALIZER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/unicode.h"

namespace strata::data {

// A stretch of the text that is being encoded, as it has become.
struct Piece {
  std::string_view text;
  // Whether its first character comes from the first one of the text that is encoded.
  bool is_start = false;
};

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  // Of a file's "normalizer" (null: none). Unimplemented: a kind that is not supported.
  static absl::StatusOr<Normalizer> FromJson(const Json& json);

  bool empty() const { return steps_.empty(); }
  // Normalizes the piece; `one` and `other` hold its text from then on if it changes.
  absl::Status Apply(Piece* piece, std::string* one, std::string* other) const;

 private:
  enum class Kind { kForm, kLowercase, kStrip, kReplace, kPrepend };
  struct Step {
    Kind kind = Kind::kForm;
    NormalForm form = NormalForm::kNfc;
    bool strip_left = false, strip_right = false;
    Pattern pattern;
    std::string content;
  };

  absl::Status AddSteps(const Json& json);
  static absl::StatusOr<bool> ApplyStep(const Step& step, Piece* piece, std::string* out);
  static void Strip(const Step& step, Piece* piece);

  static double GrowthOf(const Step& step);

  std::vector<Step> steps_;
  double growth_ = 1;  // of all steps
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_NORMALIZER_H_
