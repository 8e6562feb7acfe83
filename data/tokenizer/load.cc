#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/path_roots.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/parts.h"
#include "data/tokenizer/tokenizer_file.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

// The largest real tokenizer.json have 34 MB.
constexpr int64_t kMostTokenizerBytes = int64_t{256} << 20;
constexpr int64_t kMostConfigBytes = int64_t{16} << 20;

// What base models end documents with, the more telling names first.
constexpr const char* kEndsOfText[] = {"<|end_of_text|>", "<|endoftext|>",
                                       "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "<eos>", "</s>"};
constexpr const char* kEndsOfTurn[] = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>"};

// Messages of `status` with the path before them.
absl::Status InFile(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// The bytes of a regular file. NotFound: there is none.
absl::StatusOr<std::string> ReadWhole(const std::string& path, int64_t most) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  const int file = common::PathRoots::OfProcess().OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (file < 0) {
    if (errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    return common::FileError(path, "open", errno);
  }
  const absl::Cleanup closer = [file] { close(file); };
  struct stat status;
  if (fstat(file, &status) != 0) return common::FileError(path, "stat", errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  }
  if (status.st_size > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", status.st_size, " bytes, at most ", most, " are read"));
  }
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return common::FileError(path, "read", errno);
    if (got == 0) break;  // it has become shorter: what is missing is found when it is parsed
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

absl::StatusOr<bool> IsFolder(const std::string& path) {
  const int file = common::PathRoots::OfProcess().OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (file < 0) {
    if (errno == ENOENT) {
      return absl::NotFoundError(absl::StrCat(path, ": no such file or folder"));
    }
    return common::FileError(path, "open", errno);
  }
  const absl::Cleanup closer = [file] { close(file); };
  struct stat status;
  if (fstat(file, &status) != 0) return common::FileError(path, "stat", errno);
  return S_ISDIR(status.st_mode);
}

// A JSON object beside the tokenizer; null: there is no such file.
absl::StatusOr<Json> ReadConfig(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWhole(path, kMostConfigBytes);
  if (absl::IsNotFound(text.status())) return Json();
  if (!text.ok()) return text.status();
  absl::StatusOr<Json> json = ParseJson(*text, nullptr);
  RETURN_IF_ERROR(InFile(path, json.status()));
  if (!json->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a JSON object"));
  }
  return json;
}

// The files beside tokenizer.json.
struct Configs {
  Json tokenizer, special_tokens, model, generation;
};

absl::StatusOr<Configs> ReadConfigs(const std::string& folder) {
  Configs configs;
  ASSIGN_OR_RETURN(configs.tokenizer, ReadConfig(folder + "/tokenizer_config.json"));
  ASSIGN_OR_RETURN(configs.special_tokens, ReadConfig(folder + "/special_tokens_map.json"));
  ASSIGN_OR_RETURN(configs.model, ReadConfig(folder + "/config.json"));
  ASSIGN_OR_RETURN(configs.generation, ReadConfig(folder + "/generation_config.json"));
  return configs;
}

// The text of a token that a configuration names: a text, or an object with one.
std::string NamedToken(const Configs& configs, const char* key) {
  for (const Json* config : {&configs.tokenizer, &configs.special_tokens}) {
    const Json* token = Field(*config, key);
    if (token != nullptr && token->is_object()) token = Field(*token, "content");
    if (token != nullptr && token->is_string()) return token->get<std::string>();
  }
  return "";
}

void NameTokens(const Configs& configs, TokenizerParts* parts) {
  parts->bos_token = NamedToken(configs, "bos_token");
  parts->eos_token = NamedToken(configs, "eos_token");
  parts->unk_token = NamedToken(configs, "unk_token");
  parts->pad_token = NamedToken(configs, "pad_token");
}

std::optional<int32_t> FindEndOfText(const TokenizerParts& parts) {
  const std::optional<int32_t> eos =
      parts.eos_token.empty() ? std::nullopt : parts.Find(parts.eos_token);
  if (eos.has_value()) {
    for (const char* text : kEndsOfText) {
      if (parts.eos_token == text) return eos;
    }
  }
  for (const char* text : kEndsOfText) {
    if (const std::optional<int32_t> id = parts.Find(text); id.has_value()) return id;
  }
  return eos;
}

// Appends the ids at eos_token_id: one or a list. Negative ones say that there is none.
void AddEosIds(const Json& config, std::vector<int32_t>* ids) {
  const Json* const field = Field(config, "eos_token_id");
  if (field == nullptr) return;
  const auto add = [&](const Json& id) {
    if (!id.is_number_unsigned()) return;
    const auto value = id.get<uint64_t>();
    if (value < static_cast<uint64_t>(Vocabulary::kMostIds)) {
      ids->push_back(static_cast<int32_t>(value));
    }
  };
  if (!field->is_array()) return add(*field);
  for (const Json& id : *field) add(id);
}

std::vector<int32_t> FindEndOfGeneration(const Configs& configs, const TokenizerParts& parts) {
  std::vector<int32_t> ids;
  AddEosIds(configs.generation, &ids);
  if (ids.empty()) AddEosIds(configs.model, &ids);
  if (ids.empty()) {
    for (const char* text : kEndsOfTurn) {
      if (const std::optional<int32_t> id = parts.Find(text); id.has_value()) ids.push_back(*id);
    }
  }
  if (parts.end_of_text.has_value()) ids.push_back(*parts.end_of_text);
  if (const std::optional<int32_t> id = parts.Find(parts.eos_token); id.has_value()) {
    ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

absl::StatusOr<std::string> ReadChatTemplate(const std::string& folder, const Json& config) {
  const std::string path = folder + "/chat_template.jinja";
  absl::StatusOr<std::string> text = ReadWhole(path, kMostConfigBytes);
  if (text.ok() && FindInvalidUtf8(*text) != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not UTF-8"));
  }
  if (!absl::IsNotFound(text.status())) return text;
  const Json* const field = Field(config, "chat_template");
  if (field == nullptr) return std::string();
  if (field->is_string()) return field->get<std::string>();
  if (field->is_array()) {
    for (const Json& item : *field) {
      std::string name, named;
      RETURN_IF_ERROR(GetText(item, "name", &name));
      RETURN_IF_ERROR(GetText(item, "template", &named));
      if (name == "default") return named;
    }
    return std::string();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      folder, "/tokenizer_config.json: \"chat_template\" is neither a text nor a list"));
}

// GPT-2's files in a folder without tokenizer.json.
absl::Status ReadPair(const std::string& folder, const Configs& configs, TokenizerParts* parts) {
  for (const auto& [vocabulary_name, merges_name] :
       {std::pair("encoder.json", "vocab.bpe"), std::pair("vocab.json", "merges.txt")}) {
    const std::string path = absl::StrCat(folder, "/", vocabulary_name);
    const absl::StatusOr<std::string> vocabulary = ReadWhole(path, kMostTokenizerBytes);
    if (absl::IsNotFound(vocabulary.status())) continue;
    if (!vocabulary.ok()) return vocabulary.status();
    ASSIGN_OR_RETURN(const std::string merges,
                     ReadWhole(absl::StrCat(folder, "/", merges_name), kMostTokenizerBytes));
    std::string name = "GPT2Tokenizer";
    RETURN_IF_ERROR(InFile(folder + "/tokenizer_config.json",
                           GetText(configs.tokenizer, "tokenizer_class", &name)));
    if (name != "GPT2Tokenizer" && name != "GPT2TokenizerFast") {
      return absl::UnimplementedError(absl::StrCat(
          path, ": how ", name, " cuts words is not in this file — convert it to tokenizer.json"));
    }
    return InFile(path, ReadGpt2Files(*vocabulary, merges,
                                      {"<|endoftext|>", parts->bos_token, parts->eos_token,
                                       parts->unk_token, parts->pad_token},
                                      parts));
  }
  return absl::NotFoundError(absl::StrCat(folder,
                                          ": has no tokenizer.json (nor encoder.json and "
                                          "vocab.bpe, nor vocab.json and merges.txt)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const TokenizerParts>> LoadParts(const std::string& path) {
  ASSIGN_OR_RETURN(const bool is_folder, IsFolder(path));
  const size_t slash = path.rfind('/');
  const std::string folder = is_folder                    ? path
                             : slash == std::string::npos ? "."
                             : slash == 0                 ? "/"
                                                          : path.substr(0, slash);
  const std::string main = is_folder ? path + "/tokenizer.json" : path;
  ASSIGN_OR_RETURN(const Configs configs, ReadConfigs(folder));
  auto parts = std::make_unique<TokenizerParts>();
  NameTokens(configs, parts.get());
  const absl::StatusOr<std::string> text = ReadWhole(main, kMostTokenizerBytes);
  if (text.ok()) {
    RETURN_IF_ERROR(InFile(main, ReadTokenizerJson(*text, parts.get())));
  } else if (is_folder && absl::IsNotFound(text.status())) {
    RETURN_IF_ERROR(ReadPair(folder, configs, parts.get()));
  } else {
    return text.status();
  }
  ASSIGN_OR_RETURN(parts->chat_template, ReadChatTemplate(folder, configs.tokenizer));
  parts->end_of_text = FindEndOfText(*parts);
  parts->end_of_generation = FindEndOfGeneration(configs, *parts);
  return parts;
}

}  // namespace strata::data
