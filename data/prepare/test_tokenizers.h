// Small tokenizers for this folder's tests: GPT-2's bytes, some merges, and special tokens.
#ifndef STRATA_DATA_PREPARE_TEST_TOKENIZERS_H_
#define STRATA_DATA_PREPARE_TEST_TOKENIZERS_H_

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace strata::data {

// The character that stands for a byte in vocabularies of byte-level BPE.
inline std::string ByteCharacter(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int c = byte;
  if (!printable(byte)) {
    c = 256;
    for (int b = 0; b < byte; ++b) c += printable(b) ? 0 : 1;
  }
  if (c < 128) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
}

inline constexpr int kTestEndOfText = 264;  // "<|endoftext|>"
inline constexpr int kTestVocabulary = 267;

enum class TestSplit { kGpt2, kLlama3, kQwen };

// Writes tokenizer.json and tokenizer_config.json (with ChatML's template) into `folder`.
inline std::string WriteTestTokenizer(const std::string& folder, TestSplit split) {
  using nlohmann::json;
  std::filesystem::create_directories(folder);
  json vocabulary = json::object();
  for (int b = 0; b < 256; ++b) vocabulary[ByteCharacter(b)] = b;
  const char* const merges[][2] = {{"t", "h"}, {"th", "e"}, {"Ġ", "the"}, {"Ċ", "Ċ"},
                                   {"Ġ", "Ġ"}, {"ĠĠ", "Ġ"}, {".", "Ċ"},   {"Ċ", "Ġ"}};
  json pairs = json::array();
  int next = 256;
  for (const auto& merge : merges) {
    vocabulary[std::string(merge[0]) + merge[1]] = next++;
    pairs.push_back(std::string(merge[0]) + " " + merge[1]);
  }
  const auto special = [&](const char* text) {
    return json{{"id", next++},    {"content", text},     {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  json added = json::array();
  for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    added.push_back(special(text));
  }
  const auto byte_level = [](bool splits) {
    return json{{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", splits}};
  };
  const std::string digits = split == TestSplit::kQwen ? R"(\p{N})" : R"(\p{N}{1,3})";
  const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  json steps = byte_level(true);
  if (split != TestSplit::kGpt2) {
    const json cut = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
    steps = {{"type", "Sequence"}, {"pretokenizers", json::array({cut, byte_level(false)})}};
  }
  const json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", split == TestSplit::kQwen ? json{{"type", "NFC"}} : json()},
      {"pre_tokenizer", steps},
      {"post_processor", nullptr},
      {"decoder", byte_level(true)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"vocab", vocabulary},
        {"merges", pairs}}}};
  const json config = {
      {"eos_token", "<|im_end|>"},
      {"chat_template",
       "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
       "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
       "{{ '<|im_start|>assistant\n' }}{% endif %}"}};
  std::ofstream(folder + "/tokenizer.json") << tokenizer.dump();
  std::ofstream(folder + "/tokenizer_config.json") << config.dump();
  return folder;
}

// BPE over whole texts with byte fallback: Llama 2's way, which puts a space first, or Gemma's,
// which knows newlines.
inline std::string WriteCharacterTokenizer(const std::string& folder, bool puts_space_first) {
  using nlohmann::json;
  std::filesystem::create_directories(folder);
  json vocabulary = json::object();
  int next = 0;
  const auto add = [&](const std::string& entry) { vocabulary[entry] = next++; };
  for (const char* special : {"<unk>", "<s>", "</s>"}) add(special);
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", b);
    add(name);
  }
  for (const char* character : {"▁", "a", "t", "h", "e", ".", "!", "?", "7", "é"}) add(character);
  std::vector<std::pair<std::string, std::string>> merges = {
      {"t", "h"}, {"th", "e"}, {"▁", "the"}, {"▁", "▁"}, {"▁▁", "▁"}, {"!", "?"}, {"e", "."}};
  if (!puts_space_first) {
    add("\n");
    merges.push_back({"\n", "\n"});
  }
  json pairs = json::array();
  for (const auto& [left, right] : merges) {
    add(left + right);
    pairs.push_back(json::array({left, right}));
  }
  json added = json::array();
  for (int id = 0; id < 3; ++id) {
    const char* const names[] = {"<unk>", "<s>", "</s>"};
    added.push_back({{"id", id},
                     {"content", names[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const json spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const json first = {{"type", "Prepend"}, {"prepend", "▁"}};
  const json both = {{"type", "Sequence"}, {"normalizers", json::array({first, spaces})}};
  const json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", puts_space_first ? both : spaces},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         json::array({json{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                      json{{"type", "ByteFallback"}}, json{{"type", "Fuse"}}})}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", "<unk>"},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocabulary},
        {"merges", pairs}}}};
  std::ofstream(folder + "/tokenizer.json") << tokenizer.dump();
  std::ofstream(folder + "/tokenizer_config.json") << json{{"eos_token", "</s>"}}.dump();
  return folder;
}

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_TEST_TOKENIZERS_H_
