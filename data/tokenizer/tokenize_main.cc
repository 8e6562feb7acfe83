// tokenize TOKENIZER [FILE]: prints the token ids of a file (or standard input), and decodes them.
//
// tokenize TOKENIZER --framed: for programs. Standard input: texts, each behind its length as a
// 32-bit number. Standard output, for each: the count of its tokens, the tokens, and the texts they
// decode to with and without special tokens and from a stream, each behind its length; or -1 and a
// message. All numbers are 32-bit and in the machine's order.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::data {
namespace {

void WriteNumber(int32_t number) {
  std::cout.write(reinterpret_cast<const char*>(&number), sizeof(number));
}

void WriteText(const std::string& text) {
  WriteNumber(static_cast<int32_t>(text.size()));
  std::cout.write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::string DecodeStream(const std::shared_ptr<const Tokenizer>& tokenizer,
                         const std::vector<int32_t>& tokens) {
  StreamDecoder decoder(tokenizer, true);
  std::string text;
  for (const int32_t token : tokens) text += decoder.Add(token);
  return text + decoder.Finish();
}

int AnswerFrames(const std::shared_ptr<const Tokenizer>& tokenizer) {
  uint32_t size = 0;
  while (std::cin.read(reinterpret_cast<char*>(&size), sizeof(size))) {
    std::string text(size, '\0');
    if (!std::cin.read(text.data(), size)) return 1;
    std::vector<int32_t> tokens;
    if (const absl::Status status = tokenizer->Encode(text, &tokens); !status.ok()) {
      WriteNumber(-1);
      WriteText(std::string(status.message()));
      continue;
    }
    WriteNumber(static_cast<int32_t>(tokens.size()));
    std::cout.write(reinterpret_cast<const char*>(tokens.data()),
                    static_cast<std::streamsize>(tokens.size() * sizeof(int32_t)));
    WriteText(tokenizer->Decode(tokens, false));
    WriteText(tokenizer->Decode(tokens, true));
    WriteText(DecodeStream(tokenizer, tokens));
  }
  std::cout.flush();
  return 0;
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: tokenize TOKENIZER [FILE | --framed]\n";
    return 2;
  }
  const absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::Load(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << "\n";
    return 2;
  }
  const std::string input = argc > 2 ? argv[2] : "/dev/stdin";
  if (input == "--framed") return AnswerFrames(*tokenizer);
  std::ifstream file(input, std::ios::binary);
  if (!file) {
    std::cerr << input << ": cannot be read\n";
    return 2;
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<int32_t> tokens;
  if (const absl::Status status = (*tokenizer)->Encode(text, &tokens); !status.ok()) {
    std::cerr << input << ": " << status.message() << "\n";
    return 1;
  }
  std::cout << absl::StrJoin(tokens, " ") << "\n";
  std::cerr << tokens.size() << " tokens of " << text.size() << " bytes; decoded "
            << ((*tokenizer)->Decode(tokens, false) == text ? "they give the same text"
                                                            : "they give another text")
            << "\n";
  return 0;
}

}  // namespace
}  // namespace strata::data

int main(int argc, char** argv) { return strata::data::Main(argc, argv); }
