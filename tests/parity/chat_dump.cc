// Renders and encodes conversations for tests/parity/chat_parity.py.
//
//   chat_dump template DATE   each line of standard input {"template", "tokens": {NAME: TEXT},
//                             "record": a record's JSON as a text}: prints {"text", "trained":
//                             [[begin, end]…]} in bytes
//   chat_dump FOLDER DATE     each line a record, encoded with the folder's tokenizer: prints
//   {"tokens", "trained"}
//
// One line for each line, {"error"} where there is none of these. DATE is YYYY-MM-DD.
#include <cstdio>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "data/records/chat_template.h"
#include "data/records/record.h"
#include "data/records/record_encoder.h"
#include "data/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace strata::data {
namespace {

using Json = nlohmann::json;

absl::StatusOr<Json> RenderLine(const Json& line, const std::tm& date) {
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const auto& [name, text] : line.at("tokens").items()) tokens.emplace_back(name, text);
  // The last template: lines of one template come one after the other.
  static std::pair<std::string, std::unique_ptr<const ChatTemplate>> last;
  const std::string source = line.at("template");
  if (last.second == nullptr || last.first != source) {
    ASSIGN_OR_RETURN(last.second, ChatTemplate::Create(source, tokens, date));
    last.first = source;
  }
  const ChatTemplate& chat = *last.second;
  const std::string json = line.at("record");
  ASSIGN_OR_RETURN(const Record record, ReadRecord(json, chat.takes_parts()));
  const ChatRecord* conversation = std::get_if<ChatRecord>(&record);
  if (conversation == nullptr) return absl::InvalidArgumentError("no conversation");
  if (line.value("prompt", false)) {
    ASSIGN_OR_RETURN(const std::string text, chat.Render(conversation->conversation, true));
    return Json{{"text", text}};
  }
  ASSIGN_OR_RETURN(const ChatTemplate::Turns turns,
                   chat.RenderTurns(conversation->conversation, conversation->first_trained));
  Json spans = Json::array();
  for (const jinja::Span& span : turns.trained) spans.push_back({span.begin, span.end});
  return Json{{"text", turns.text}, {"trained", spans}};
}

absl::StatusOr<Json> EncodeLine(const RecordEncoder& encoder, const std::string& line) {
  EncodedDocument document;
  RETURN_IF_ERROR(encoder.Encode(line, &document));
  return Json{{"tokens", document.tokens}, {"trained", document.trained}};
}

int Run(const std::string& what, const std::string& day) {
  RecordOptions options;
  options.date.emplace();
  if (strptime(day.c_str(), "%Y-%m-%d", &*options.date) == nullptr) return 2;
  std::unique_ptr<const RecordEncoder> encoder;
  if (what != "template") {
    absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::Load(what);
    if (!tokenizer.ok()) {
      std::cerr << tokenizer.status().message() << "\n";
      return 1;
    }
    encoder = *RecordEncoder::Create(*tokenizer, options);
  }
  for (std::string line; std::getline(std::cin, line);) {
    const absl::StatusOr<Json> result = encoder != nullptr
                                            ? EncodeLine(*encoder, line)
                                            : RenderLine(Json::parse(line), *options.date);
    const Json told =
        result.ok() ? *result : Json{{"error", std::string(result.status().message())}};
    std::cout << told.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace strata::data

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: chat_dump template|FOLDER YYYY-MM-DD\n");
    return 2;
  }
  return strata::data::Run(argv[1], argv[2]);
}
