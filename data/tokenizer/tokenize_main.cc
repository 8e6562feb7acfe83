// tokenize TOKENIZER [FILE]: prints the token ids of a file (or standard input), and decodes them.
//
// tokenize TOKENIZER --framed: for programs. Standard input: texts, each behind its length, and
// lists of tokens, each behind -1 and its length. Standard output, for each: the count of the
// tokens, the tokens, and the texts they decode to with and without special tokens and from a
// stream, each behind its length; or -1 and a message. Numbers are 32-bit, in the machine's order.
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

bool ReadNumber(int32_t* number) {
  return static_cast<bool>(std::cin.read(reinterpret_cast<char*>(number), sizeof(*number)));
}

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
  int32_t size = 0;
  while (ReadNumber(&size)) {
    std::vector<int32_t> tokens;
    absl::Status status;
    if (size < 0) {
      if (!ReadNumber(&size)) return 1;
      tokens.resize(static_cast<size_t>(size));
      for (int32_t& token : tokens) ReadNumber(&token);
    } else {
      std::string text(static_cast<size_t>(size), '\0');
      if (!std::cin.read(text.data(), size)) return 1;
      status = tokenizer->Encode(text, &tokens);
    }
    if (!status.ok()) {
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
