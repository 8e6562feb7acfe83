// strata data: prepare token files, and show what is in them.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/machine.h"
#include "client/prepare_teller.h"
#include "client/terminal/table.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "data/prepare/prepare.h"
#include "data/prepare/samples.h"

namespace strata::client {
namespace {

using data::PrepareInput;
using data::TokenFormat;

// Files that are missing or may not be read are wrong arguments here.
int FailOnFile(const absl::Status& status, Terminal& terminal) {
  const bool missing = absl::IsNotFound(status) || absl::IsPermissionDenied(status);
  return Fail(missing ? absl::InvalidArgumentError(status.message()) : status, terminal);
}

TokenFormat FormatOf(const std::string& word) {
  if (word == "u16") return TokenFormat::kU16;
  if (word == "llmc") return TokenFormat::kLlmc;
  return word == "megatron" ? TokenFormat::kMegatron : TokenFormat::kLlmq;
}

PrepareInput::Kind KindOf(const Arguments& arguments) {
  const std::string word = arguments.Text("--format-in");
  if (word == "text") return PrepareInput::Kind::kText;
  return word == "jsonl" ? PrepareInput::Kind::kJsonLines : PrepareInput::Kind::kByName;
}

absl::StatusOr<data::PrepareOptions> PrepareOptionsOf(const Arguments& arguments) {
  data::PrepareOptions options;
  std::vector<std::string> problems;
  for (const std::string& text : arguments.positional()) {
    absl::StatusOr<PrepareInput> input = data::ParsePrepareInput(text);
    if (!input.ok()) {
      problems.emplace_back(input.status().message());
      continue;
    }
    input->kind = KindOf(arguments);
    options.inputs.push_back(*std::move(input));
  }
  if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  options.output = arguments.Text("--output");
  options.format = FormatOf(arguments.Text("--format"));
  options.tokenizer = arguments.Text("--tokenizer");
  options.threads = static_cast<int>(arguments.Count("--threads").value_or(UsableCores()));
  options.max_tokens = arguments.Count("--max-tokens").value_or(0);
  options.skip_bad = arguments.Has("--skip-bad");
  return options;
}

std::string PercentText(int64_t part, int64_t whole) {
  return absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(part) /
                                        static_cast<double>(std::max<int64_t>(1, whole)));
}

std::string ReportTable(const data::PrepareReport& report) {
  const double speed =
      static_cast<double>(report.input_bytes) / 1e6 / std::max(1e-3, report.seconds);
  return FormatTable(
      {"DOCUMENTS", "TOKENS", "TRAINED", "LONGEST", "TRUNCATED", "SKIPPED", "SECONDS", "MB/S"},
      {{absl::StrCat(report.documents), absl::StrCat(report.tokens),
        PercentText(report.trained, report.tokens), absl::StrCat(report.longest),
        absl::StrCat(report.truncated), absl::StrCat(report.skipped),
        absl::StrFormat("%.1f", report.seconds), absl::StrFormat("%.1f", speed)}});
}

int Prepare(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<data::PrepareOptions> options = PrepareOptionsOf(arguments);
  if (!options.ok()) return Fail(options.status(), terminal);
  const common::MonotonicClock clock;
  const InterruptScope interrupts;
  PrepareTeller teller(terminal, clock);
  data::PrepareEvents events;
  events.progress = [&](const data::PrepareProgress& progress) {
    teller.Tell(progress);
    return !interrupts.interrupted();
  };
  events.notice = [&](const std::string& text) { terminal.Say(text); };
  terminal.Say(absl::StrCat("preparing ", options->inputs.size(),
                            options->inputs.size() == 1 ? " file" : " files", " on ",
                            options->threads, options->threads == 1 ? " thread" : " threads"));
  const absl::StatusOr<data::PrepareReport> report = data::PrepareData(*options, events, clock);
  if (!report.ok()) return FailOnFile(report.status(), terminal);
  terminal.Out(ReportTable(*report));
  const std::string tokenizer =
      options->tokenizer.empty() ? "" : absl::StrCat(" --tokenizer ", options->tokenizer);
  terminal.Say(absl::StrCat("next: strata data show ", report->path, tokenizer,
                            ", and in a job: data: {train: [{path: ", report->path, "}]}"));
  return kExitDone;
}

// Text that a terminal shows as it is: nothing in it moves the cursor or changes colours.
std::string Harmless(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t') {
      shown.push_back(c);
    } else {
      absl::StrAppend(&shown, absl::StrFormat("\\x%02x", byte));
    }
  }
  return shown;
}

std::string SampleText(const data::SampleSet& set, const data::Sample& sample,
                       const Terminal& terminal) {
  std::string text = absl::StrCat(set.unit, " ", sample.index);
  if (set.total > 0) absl::StrAppend(&text, " of ", set.total);
  absl::StrAppend(&text, ": ", sample.tokens, " tokens from ", sample.begin, ", ", sample.trained,
                  " trained");
  text = absl::StrCat(terminal.Paint(Style::kBold, text), "\n");
  for (const data::SampleSpan& span : sample.spans) {
    const std::string shown = Harmless(span.text);
    if (!span.trained) {
      absl::StrAppend(&text, shown);
    } else if (terminal.options().color) {
      absl::StrAppend(&text, terminal.Paint(Style::kGood, shown));
    } else {
      absl::StrAppend(&text, "⟦", shown, "⟧");
    }
  }
  const int64_t hidden = sample.tokens - data::kMostShownTokens;
  if (hidden > 0) absl::StrAppend(&text, "\n… and ", hidden, " more tokens");
  return text + "\n\n";
}

std::string SamplesJson(const data::SampleSet& set, const std::string& path) {
  nlohmann::json json = {{"path", path},
                         {"unit", set.unit},
                         {"tokens", set.tokens},
                         {"trained", set.trained},
                         {"decoded", set.decoded}};
  if (set.total > 0) json["total"] = set.total;
  json["samples"] = nlohmann::json::array();
  for (const data::Sample& sample : set.samples) {
    nlohmann::json spans = nlohmann::json::array();
    for (const data::SampleSpan& span : sample.spans) {
      spans.push_back({{"trained", span.trained}, {"text", span.text}});
    }
    json["samples"].push_back({{"index", sample.index},
                               {"begin", sample.begin},
                               {"tokens", sample.tokens},
                               {"trained", sample.trained},
                               {"spans", std::move(spans)}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int ShowData(const Arguments& arguments, Terminal& terminal) {
  data::SampleOptions options;
  options.input.path = arguments.positional()[0];
  options.input.kind = KindOf(arguments);
  options.tokenizer = arguments.Text("--tokenizer");
  options.samples = arguments.Count("--samples").value_or(options.samples);
  options.sequence = arguments.Count("--sequence").value_or(0);
  const absl::StatusOr<data::SampleSet> set = data::ReadSamples(options);
  if (!set.ok()) return FailOnFile(set.status(), terminal);
  if (arguments.Text("--output") == "json") {
    terminal.Out(SamplesJson(*set, options.input.path));
    return kExitDone;
  }
  if (!set->decoded) {
    terminal.Say("tokens are shown by their numbers — --tokenizer DIR decodes them");
  }
  for (const data::Sample& sample : set->samples) {
    terminal.Out(SampleText(*set, sample, terminal));
  }
  const std::string units =
      set->total > 0 ? absl::StrCat(set->total, " ", set->unit, set->total == 1 ? "" : "s")
                     : absl::StrCat("the ", set->samples.size(), " records shown");
  terminal.Out(absl::StrCat(units, ", ", set->tokens, " tokens, ",
                            PercentText(set->trained, set->tokens), " trained\n"));
  return kExitDone;
}

Flag FormatInFlag() {
  return {"--format-in",
          Flag::Kind::kWord,
          "KIND",
          "of the inputs (default: by name; .jsonl, "
          "else text)",
          "",
          0,
          0,
          {"text", "jsonl"}};
}

Command PrepareCommand() {
  constexpr auto kText = Flag::Kind::kText;
  Command command;
  command.name = "data prepare";
  command.usage = "FILE[:WEIGHT]… -o OUT [--tokenizer DIR]";
  command.summary = "Turn texts and JSONL (also .gz and .zst) into a token file";
  command.arguments = {"FILE"};
  command.most_arguments = 100000;
  command.flags = {
      {"--output", kText, "OUT", "the token file; of Megatron's pair the .idx", "-o"},
      {"--tokenizer", kText, "DIR",
       "a folder with tokenizer.json, or that file (default: tokens are bytes)"},
      {"--format",
       Flag::Kind::kWord,
       "KIND",
       "llmq, with a mask (default), or without one u16, llmc, megatron",
       "",
       0,
       0,
       {"llmq", "u16", "llmc", "megatron"}},
      FormatInFlag(),
      {"--threads", Flag::Kind::kCount, "N", "that encode (default: one a core)", "", 1, 1024},
      {"--max-tokens", Flag::Kind::kCount, "N", "cut longer documents (default: none)", "", 1,
       1e15},
      {"--skip-bad", Flag::Kind::kSwitch, "", "leave out and count records that are wrong"},
  };
  command.flags[0].required = true;
  command.run = Prepare;
  return command;
}

Command ShowCommand() {
  Command command;
  command.name = "data show";
  command.usage = "FILE [--tokenizer DIR] [--samples N] [--sequence N]";
  command.summary = "Show samples of a token file, a text or JSONL, and what of them is trained on";
  command.arguments = {"FILE"};
  command.most_arguments = 1;
  command.flags = {
      {"--tokenizer", Flag::Kind::kText, "DIR", "a folder with tokenizer.json, or that file"},
      {"--samples", Flag::Kind::kCount, "N", "how many (default: 3)", "", 1, 1e6},
      {"--sequence", Flag::Kind::kCount, "N", "windows of N tokens instead of documents", "", 1,
       1 << 30},
      FormatInFlag(),
  };
  command.outputs = {"table", "json"};
  command.run = ShowData;
  return command;
}

}  // namespace

std::vector<Command> DataCommands() { return {PrepareCommand(), ShowCommand()}; }

}  // namespace strata::client
