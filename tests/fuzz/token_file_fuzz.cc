// Token files of every kind. The first byte is the name: 't' a file known by its first bytes or a
// text, 'r' raw tokens, 'd' a list of documents, 'm' a Megatron index, whose data has as many bytes
// as the next two bytes say.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/check.h"
#include "data/files/document_ends.h"
#include "data/token_source.h"
#include "tests/fuzz/scratch.h"

namespace strata::data {
namespace {

void ReadAll(const std::string& path) {
  const auto source = OpenTokenSource(path, 1 << 20);
  if (!source.ok()) return;
  const int64_t count = std::min<int64_t>((*source)->tokens(), 100000);
  const int64_t begin = (*source)->tokens() - count;
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  if ((*source)->Read(begin, count, tokens.data()).ok()) {
    for (const int32_t token : tokens) STRATA_CHECK(token >= 0 && token < 1 << 20);
  }
  static_cast<void>((*source)->MaskTargets(begin, count, tokens.data()));
  const auto ends = (*source)->DocumentEnds();
  if (!ends.ok()) return;
  STRATA_CHECK(std::is_sorted(ends->begin(), ends->end()));
  STRATA_CHECK(ends->back() == (*source)->tokens());
}

}  // namespace
}  // namespace strata::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const strata::fuzz::Scratch scratch;
  if (size < 1) return 0;
  const char kind = static_cast<char>(data[0]);
  ++data, --size;
  if (kind == 'm') {
    uint16_t bytes = 0;
    if (size < sizeof(bytes)) return 0;
    std::memcpy(&bytes, data, sizeof(bytes));
    const std::string zeros(bytes, '\0');
    scratch.Write("m.bin", zeros.data(), zeros.size());
    strata::data::ReadAll(scratch.Write("m.idx", data + 2, size - 2));
  } else if (kind == 'd') {
    scratch.Write("t.documents", data, size);
    static_cast<void>(strata::data::ReadDocumentEnds(scratch.Path("t"), 21).status());
    scratch.Remove("t.documents");
  } else {
    strata::data::ReadAll(scratch.Write(kind == 'r' ? "r.bin" : "t", data, size));
  }
  return 0;
}
