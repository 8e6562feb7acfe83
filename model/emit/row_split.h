// Rows of activations between the ranks of a tensor group (sequence parallelism: Korthikanti et
// al., "Reducing Activation Recomputation in Large Transformer Models", 2022, §4.2.2), and the
// collectives around products, cut into chunks so that one chunk is on its way while another is
// multiplied.
//
// The N rows of a pass are `chunks` blocks; each rank holds its part of every block: rank r of t
// holds rows i·N/chunks + r·N/(chunks·t) + [0, N/(chunks·t)) of each block i, block after block.
// So gathering chunk i gives block i with its rows in order. Degree 1: one chunk, everything local,
// no collective.
#ifndef STRATA_MODEL_EMIT_ROW_SPLIT_H_
#define STRATA_MODEL_EMIT_ROW_SPLIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "model/emit/template_builder.h"

namespace strata::model {

struct RowSplit {
  int64_t rows = 0;  // N
  int64_t degree = 1;
  int64_t chunks = 1;  // chunks × degree divides rows

  int64_t chunk_rows() const { return rows / chunks; }
  int64_t shard_rows() const { return rows / degree; }          // that one rank holds
  int64_t part_rows() const { return rows / chunks / degree; }  // of one chunk that one rank holds
};

// Calls use(first row, rows, view) for consecutive ranges of all rows of `x`, of which this rank
// holds a shard [N/t, width]; the view holds these rows [rows, width]. Chunk i + 1 is gathered
// while chunk i is used.
void ForEachGathered(
    TemplateBuilder& builder, const RowSplit& split, const View& x, int64_t width,
    const std::string& name,
    const std::function<void(int64_t first, int64_t rows, const View& x_rows)>& use);

// Calls make(first row, rows, view) for consecutive ranges of all rows; it writes them, as partial
// sums over the tensor group (degree 1: complete), into the view [rows, width]. Their sums go to
// this rank's shard `y` [N/t, width]; chunk i is reduced while chunk i + 1 is made.
void ForEachScattered(
    TemplateBuilder& builder, const RowSplit& split, const View& y, int64_t width,
    const std::string& name,
    const std::function<void(int64_t first, int64_t rows, const View& y_rows)>& make);

}  // namespace strata::model

#endif  // STRATA_MODEL_EMIT_ROW_SPLIT_H_
