#include "data/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

constexpr const char* kModelFields[] = {"type",          "dropout", "unk_token",
                                        "fuse_unk",      "vocab",   "continuing_subword_prefix",
                                        "byte_fallback", "merges",  "end_of_word_suffix",
                                        "ignore_merges"};

// The same status with where it was put before it.
absl::Status Within(const char* where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

const Json kNull;
const Json& FieldOrNull(const Json& object, const char* key) {
  const Json* const field = Field(object, key);
  return field == nullptr ? kNull : *field;
}

absl::Status ReadModel(const Json& model, BpeSpec* spec) {
  std::string type = "BPE";
  RETURN_IF_ERROR(GetText(model, "type", &type));
  if (type != "BPE") {
    return absl::UnimplementedError(absl::StrCat("model ", type, " is not supported; BPE is"));
  }
  for (const auto& [key, value] : model.items()) {
    const auto known = std::find(std::begin(kModelFields), std::end(kModelFields), key);
    if (known == std::end(kModelFields)) {
      return absl::UnimplementedError(absl::StrCat("the field \"", key, "\" is not supported"));
    }
  }
  if (const Json* const dropout = Field(model, "dropout");
      dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0)) {
    return absl::UnimplementedError("dropout is not supported: tokens would be random");
  }
  RETURN_IF_ERROR(GetOptionalText(model, "unk_token", &spec->unk_token));
  RETURN_IF_ERROR(GetText(model, "continuing_subword_prefix", &spec->continuing_subword_prefix));
  RETURN_IF_ERROR(GetText(model, "end_of_word_suffix", &spec->end_of_word_suffix));
  RETURN_IF_ERROR(GetBool(model, "fuse_unk", &spec->fuse_unk));
  RETURN_IF_ERROR(GetBool(model, "byte_fallback", &spec->byte_fallback));
  RETURN_IF_ERROR(GetBool(model, "ignore_merges", &spec->ignore_merges));
  if (spec->vocabulary.size() == 0) return absl::InvalidArgumentError("no tokens in \"vocab\"");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const Json& list) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) return absl::InvalidArgumentError("not a list");
  for (const Json& object : list) {
    AddedToken& token = tokens.emplace_back();
    RETURN_IF_ERROR(GetText(object, "content", &token.content));
    RETURN_IF_ERROR(GetBool(object, "single_word", &token.single_word));
    RETURN_IF_ERROR(GetBool(object, "lstrip", &token.lstrip));
    RETURN_IF_ERROR(GetBool(object, "rstrip", &token.rstrip));
    RETURN_IF_ERROR(GetBool(object, "normalized", &token.normalized));
    RETURN_IF_ERROR(GetBool(object, "special", &token.special));
  }
  return tokens;
}

// Sets up what looks for added tokens.
absl::Status FindTokens(TokenizerParts* parts) {
  std::vector<std::string> decoded;
  for (const AddedToken& token : parts->added.tokens()) {
    std::string one, other;
    Piece piece{token.content, true};
    if (token.normalized) RETURN_IF_ERROR(parts->normalizer.Apply(&piece, &one, &other));
    decoded.emplace_back(piece.text);
    if (piece.text.empty() || piece.text.size() > TokenFinder::kLongest) {
      return absl::UnimplementedError(
          absl::StrCat("\"", absl::Utf8SafeCHexEscape(token.content),
                       "\" becomes empty or very long when it is normalized, which is not "
                       "supported"));
    }
    TokenFinder& finder = token.normalized ? parts->in_normalized : parts->in_text;
    if (!finder.Add(piece.text, token)) {
      return absl::UnimplementedError(
          absl::StrCat("\"", absl::Utf8SafeCHexEscape(token.content),
                       "\" is the same as another one when it is normalized, which is not "
                       "supported"));
    }
  }
  parts->added.SetDecoded(std::move(decoded));
  return absl::OkStatus();
}

absl::Status Assemble(BpeSpec spec, std::vector<AddedToken> added, TokenizerParts* parts) {
  absl::StatusOr<std::unique_ptr<const Bpe>> bpe = Bpe::Make(std::move(spec));
  RETURN_IF_ERROR(Within("model", bpe.status()));
  parts->bpe = *std::move(bpe);
  RETURN_IF_ERROR(
      Within("added_tokens", parts->added.Add(std::move(added), parts->bpe->vocabulary())));
  RETURN_IF_ERROR(Within("added_tokens", FindTokens(parts)));
  parts->words_are_bytes = parts->pre_tokenizer.ends_with_bytes() && parts->bpe->takes_bytes();
  if (parts->words_are_bytes) parts->pre_tokenizer.LeaveBytes();
  return absl::OkStatus();
}

absl::Status ReadMerges(std::string_view text,
                        std::vector<std::pair<std::string, std::string>>* merges) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.substr(0, 8) == "#version") continue;
    absl::StatusOr<std::pair<std::string, std::string>> merge = ParseMerge(line);
    if (!merge.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " of the merges: ", merge.status().message()));
    }
    merges->push_back(*std::move(merge));
  }
  return absl::OkStatus();
}

// Appends the ids that a post-processor's template has before a single text.
absl::Status ReadTextStart(const Json& processor, std::vector<int32_t>* ids) {
  const absl::StatusOr<std::string> type = TypeOf(processor, "post_processor");
  RETURN_IF_ERROR(type.status());
  const auto list = [](const Json& object, const char* key) {
    const Json* const field = Field(object, key);
    return field != nullptr && field->is_array() ? *field : Json::array();
  };
  if (*type == "Sequence") {
    for (const Json& each : list(processor, "processors")) {
      RETURN_IF_ERROR(ReadTextStart(each, ids));
    }
  }
  if (*type != "TemplateProcessing") return absl::OkStatus();
  const Json special = FieldOrNull(processor, "special_tokens");
  for (const Json& piece : list(processor, "single")) {
    const Json* const token = Field(piece, "SpecialToken");
    if (token == nullptr) return absl::OkStatus();  // the text
    std::string name;
    RETURN_IF_ERROR(GetText(*token, "id", &name));
    const Json found = FieldOrNull(special, name.c_str());
    for (const Json& id : list(found, "ids")) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= Vocabulary::kMostIds) {
        return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" has an id that is none"));
      }
      ids->push_back(id.get<int32_t>());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadTokenizerJson(std::string_view text, TokenizerParts* parts) {
  LargeValues large;
  ASSIGN_OR_RETURN(const Json root, ParseJson(text, &large));
  if (!root.is_object()) return absl::InvalidArgumentError("not a JSON object");
  std::string version = "1.0";
  RETURN_IF_ERROR(GetText(root, "version", &version));
  if (version != "1.0") {
    return absl::UnimplementedError(absl::StrCat("version ", version, " is not supported; 1.0 is"));
  }
  const Json* const model = Field(root, "model");
  if (model == nullptr || !model->is_object()) {
    return absl::InvalidArgumentError("there is no \"model\": not a tokenizer.json");
  }
  BpeSpec spec;
  spec.vocabulary = std::move(large.vocabulary);
  spec.merges = std::move(large.merges);
  RETURN_IF_ERROR(Within("model", ReadModel(*model, &spec)));
  absl::StatusOr<std::vector<AddedToken>> added =
      ReadAddedTokens(FieldOrNull(root, "added_tokens"));
  RETURN_IF_ERROR(Within("added_tokens", added.status()));
  ASSIGN_OR_RETURN(parts->normalizer, Normalizer::FromJson(FieldOrNull(root, "normalizer")));
  ASSIGN_OR_RETURN(parts->pre_tokenizer,
                   PreTokenizer::FromJson(FieldOrNull(root, "pre_tokenizer")));
  ASSIGN_OR_RETURN(parts->decoder, Decoder::FromJson(FieldOrNull(root, "decoder")));
  if (const Json* const processor = Field(root, "post_processor"); processor != nullptr) {
    RETURN_IF_ERROR(Within("post_processor", ReadTextStart(*processor, &parts->text_start)));
  }
  return Assemble(std::move(spec), *std::move(added), parts);
}

absl::Status ReadGpt2Files(std::string_view vocabulary, std::string_view merges,
                           const std::vector<std::string>& special, TokenizerParts* parts) {
  if (FindInvalidUtf8(merges) != std::string_view::npos) {
    return absl::InvalidArgumentError("the merges are not UTF-8");
  }
  BpeSpec spec;
  ASSIGN_OR_RETURN(spec.vocabulary, ParseVocabulary(vocabulary));
  RETURN_IF_ERROR(ReadMerges(merges, &spec.merges));
  std::vector<AddedToken> added;
  for (const std::string& text : special) {
    const bool again = std::any_of(added.begin(), added.end(),
                                   [&](const AddedToken& token) { return token.content == text; });
    if (text.empty() || again || !spec.vocabulary.Find(text).has_value()) continue;
    AddedToken& token = added.emplace_back();
    token.content = text;
    token.normalized = false;
    token.special = true;
  }
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  ASSIGN_OR_RETURN(parts->pre_tokenizer, PreTokenizer::FromJson(byte_level));
  ASSIGN_OR_RETURN(parts->decoder, Decoder::FromJson(byte_level));
  return Assemble(std::move(spec), std::move(added), parts);
}

}  // namespace strata::data
