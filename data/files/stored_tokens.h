// Tokens that lie in a file as an array, whatever the format around it.
#ifndef STRATA_DATA_FILES_STORED_TOKENS_H_
#define STRATA_DATA_FILES_STORED_TOKENS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/files/input_file.h"
#include "data/files/megatron_index.h"
#include "data/files/token_layout.h"
#include "data/token_source.h"

namespace strata::data {

class StoredTokens final : public TokenSource {
 public:
  // Text, whose tokens are its bytes.
  static absl::StatusOr<std::shared_ptr<const StoredTokens>> Text(InputFile file,
                                                                  int64_t vocabulary);
  // `layout` was parsed from the file and fits its size.
  static absl::StatusOr<std::shared_ptr<const StoredTokens>> Array(InputFile file,
                                                                   const TokenLayout& layout,
                                                                   int64_t vocabulary);
  static absl::StatusOr<std::shared_ptr<const StoredTokens>> Megatron(InputFile index_file,
                                                                      InputFile data,
                                                                      const MegatronIndex& index,
                                                                      int64_t vocabulary);

  // Of a Megatron index, else of the file.
  const std::string& path() const override { return path_; }
  int64_t tokens() const override { return layout_.tokens; }
  int64_t bytes() const override { return file_.size(); }
  int64_t vocabulary() const override { return vocabulary_; }
  const char* unit() const override { return text_ ? "bytes" : "tokens"; }
  bool masked() const override { return layout_.mask_byte >= 0; }

  absl::Status Read(int64_t begin, int64_t count, int32_t* tokens) const override;
  absl::Status MaskTargets(int64_t begin, int64_t count, int32_t* targets) const override;
  absl::StatusOr<std::vector<int64_t>> DocumentEnds() const override;

  StoredTokens(std::string path, InputFile file, const TokenLayout& layout, int64_t vocabulary);

 private:
  absl::Status Sample();
  absl::Status ReadBelow(int64_t begin, int64_t count, int64_t limit, int32_t* tokens) const;
  absl::Status Refuse(int64_t position, int64_t token, int64_t limit) const;

  const std::string path_;
  const InputFile file_;
  const TokenLayout layout_;
  const int64_t limit_;  // tokens are below it
  bool text_ = false;
  int64_t vocabulary_ = 0;
  std::optional<std::pair<InputFile, MegatronIndex>> index_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_FILES_STORED_TOKENS_H_
