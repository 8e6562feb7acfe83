#include "model/emit/row_split.h"

#include <array>

#include "model/emit/ops.h"

namespace strata::model {

using program::Group;
using program::SlotClass;

void ForEachGathered(
    TemplateBuilder& builder, const RowSplit& split, const View& x, int64_t width,
    const std::string& name,
    const std::function<void(int64_t first, int64_t rows, const View& x_rows)>& use) {
  if (split.degree == 1) {
    use(0, split.rows, x);
    return;
  }
  std::array<View, 2> buffers;
  for (View& buffer : buffers) {
    buffer = builder.Local(name + " gathered", split.chunk_rows() * width * 4,
                           SlotClass::kCommunication);
  }
  const auto gather = [&](int64_t chunk) {
    AllGather(builder, Group::kTensor, x.Rows(chunk * split.part_rows(), split.part_rows(), width),
              buffers[chunk % 2]);
  };
  gather(0);
  for (int64_t chunk = 0; chunk < split.chunks; ++chunk) {
    if (chunk + 1 < split.chunks) gather(chunk + 1);
    use(chunk * split.chunk_rows(), split.chunk_rows(), buffers[chunk % 2]);
  }
}

void ForEachScattered(
    TemplateBuilder& builder, const RowSplit& split, const View& y, int64_t width,
    const std::string& name,
    const std::function<void(int64_t first, int64_t rows, const View& y_rows)>& make) {
  if (split.degree == 1) {
    make(0, split.rows, y);
    return;
  }
  const int64_t bytes = split.chunk_rows() * width * 4;
  std::array<View, 2> buffers;
  for (View& buffer : buffers) {
    buffer = builder.Local(name + " partial", bytes, SlotClass::kCommunication)
                 .Marked(program::PartialOver(Group::kTensor));
  }
  const View scratch = builder.Local(
      name + " scratch", ReduceScatterScratchBytes(bytes, split.degree), SlotClass::kCommunication);
  for (int64_t chunk = 0; chunk < split.chunks; ++chunk) {
    const View& partial = buffers[chunk % 2];
    make(chunk * split.chunk_rows(), split.chunk_rows(), partial);
    ReduceScatter(builder, Group::kTensor, partial,
                  y.Rows(chunk * split.part_rows(), split.part_rows(), width), scratch);
  }
}

}  // namespace strata::model
