#include "client/command_line/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/commands/registry.h"
#include "client/exit_codes.h"

namespace strata::client {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;

struct Ended {
  int code;
  std::string err;
};

// The whole program, its messages caught.
Ended Strata(const std::vector<std::string>& typed) {
  std::FILE* err = std::tmpfile();
  Terminal terminal(err, err, {});
  Ended ended{RunCommandLine(typed, terminal), ""};
  std::rewind(err);
  ended.err.resize(20'000);
  ended.err.resize(std::fread(ended.err.data(), 1, ended.err.size(), err));
  std::fclose(err);
  return ended;
}

absl::StatusOr<Arguments> Parse(const std::vector<std::string>& typed) {
  static const auto& command = *new Command(RunCommand());
  return ParseArguments(command, typed);
}

TEST(ParseArguments, FlagsInAllForms) {
  const auto arguments =
      Parse({"--ranks", "2", "job.yaml", "--set=a=1", "--set", "b=2", "-ojson", "-q", "--resume"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(arguments->positional(), ElementsAre("job.yaml"));
  EXPECT_EQ(arguments->Count("--ranks"), 2);
  EXPECT_THAT(arguments->All("--set"), ElementsAre("a=1", "b=2"));
  EXPECT_EQ(arguments->Text("--output"), "json");
  EXPECT_TRUE(arguments->Has("--quiet"));
  EXPECT_TRUE(arguments->Has("--resume"));
  EXPECT_FALSE(arguments->Has("--metrics"));
  EXPECT_EQ(arguments->Text("--metrics", "none"), "none");
}

TEST(ParseArguments, AfterTwoDashesEverythingIsPositional) {
  const auto arguments = Parse({"--", "--ranks"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_THAT(arguments->positional(), ElementsAre("--ranks"));
}

TEST(ParseArguments, ProblemsAreToldAllAtOnce) {
  const auto arguments = Parse({"job.yaml", "--ranks", "two", "--resume=yes", "more", "--dir"});
  const std::string told(arguments.status().message());
  EXPECT_THAT(told, HasSubstr("--ranks two: is not a whole number"));
  EXPECT_THAT(told, HasSubstr("--resume takes no value"));
  EXPECT_THAT(told, HasSubstr("unexpected argument more"));
  EXPECT_THAT(told, HasSubstr("--dir needs a value"));
}

TEST(ParseArguments, TimesHaveUnitsOrAreSeconds) {
  Command command;
  command.flags = {{"--timeout", Flag::Kind::kTime, "TIME", ""}};
  for (const auto& [text, seconds] : std::vector<std::pair<std::string, double>>{
           {"90", 90}, {"0.5", 0.5}, {"90s", 90}, {"1h30m", 5400}, {"1d", 86400}, {"0", 0}}) {
    const auto arguments = ParseArguments(command, {"--timeout", text});
    ASSERT_TRUE(arguments.ok()) << arguments.status();
    EXPECT_EQ(arguments->Seconds("--timeout"), seconds) << text;
  }
  EXPECT_FALSE(ParseArguments(command, {"--timeout", "90x"}).ok());
  EXPECT_FALSE(ParseArguments(command, {"--timeout", "-1"}).ok());
}

TEST(ParseArguments, OnlyAPromptMayBeEmpty) {
  const Command generate = GenerateCommand();
  for (const std::vector<std::string>& prompt :
       {std::vector<std::string>{"--prompt", ""}, std::vector<std::string>{"--prompt="}}) {
    std::vector<std::string> typed = {"--from", "x"};
    typed.insert(typed.end(), prompt.begin(), prompt.end());
    const auto arguments = ParseArguments(generate, typed);
    ASSERT_TRUE(arguments.ok()) << arguments.status();
    EXPECT_TRUE(arguments->Has("--prompt"));
    EXPECT_EQ(arguments->Text("--prompt", "none"), "");
  }
  EXPECT_THAT(std::string(ParseArguments(generate, {"--from=", "--prompt=x"}).status().message()),
              HasSubstr("--from needs a value"));
}

TEST(CommandLine, MistakesAreUsageErrorsThatSayWhatWasMeant) {
  const struct {
    std::vector<std::string> typed;
    int code;
    const char* says;
  } cases[] = {
      {{"sumbit", "job.yaml"}, kExitUsage, "sumbit.*did you mean submit"},
      {{"run", "job.yaml", "--rnaks", "2"}, kExitUsage, "--rnaks.*did you mean --ranks"},
      {{"run"}, kExitUsage, "JOB.yaml is missing"},
      {{"run", "job.yaml", "--ranks", "0"}, kExitUsage, "ranks 0: must be at least 1"},
      {{"run", "job.yaml", "--ranks", "two"}, kExitUsage, "ranks two"},
      {{"run", "job.yaml", "--ranks", "1", "--ranks", "2"}, kExitUsage, "given twice"},
      {{"run", "/no/such/job.yaml"}, kExitUsage, "job.yaml: no such file"},
      {{"run", "/"}, kExitUsage, "directory"},
      {{"get", "jobs", "-o", "toml"}, kExitUsage, "toml.*json"},
      {{"get", "jbos"}, kExitUsage, "jbos.*did you mean jobs"},
      {{"get", "job", "a", "--show-labels"}, kExitUsage, "--show-labels is for all jobs"},
      {{"wait", "x", "--for=mood=good"}, kExitUsage, "mood"},
      {{"wait", "x", "--for=state=DONE"}, kExitUsage, "SUCCEEDED"},
      {{"wait", "x", "--for=step=0"}, kExitUsage, "step"},
      {{"wait", "x"}, kExitUsage, "--for is missing"},
      {{"wait", "x", "--for=step=1", "--timeout", "soon"},
       kExitUsage,
       "timeout soon: is no duration"},
      {{"drain", "n0", "--timeout", "2000000d"}, kExitUsage, "100 years"},
      {{"token", "create", "--uses", "2000000"}, kExitUsage, "and at most 1000000"},
      {{"logs", "x", "-o", "yaml"}, kExitUsage, "the values here are table, json"},
      {{"explain", "x", "y"}, kExitUsage, "unexpected argument y — usage: strata explain NAME"},
      {{"delete", "x"}, kExitUsage, "strata delete job x"},
      {{"get", "jobs", "--server", "127.0.0.1:1"}, kExitUnavailable, "127.0.0.1:1 "},
      {{"get", "jobs", "--server", "nowhere:port"}, kExitUsage, "nowhere:port"},
      {{"up", "--topology", "f.yaml"}, kExitUsage, "f.yaml: no such file"},
      {{"doctor", "-o", "yaml"}, kExitUsage, "yaml.*json"},
      {{"generate", "--from", "/no/such", "--prompt", "x"}, kExitUsage, "/no/such"},
      {{"generate", "--from", "/proc", "--prompt", "x"}, kExitUsage, "/proc: no checkpoint in it"},
      {{"generate", "--prompt", "x"}, kExitUsage, "--from is missing"},
      {{"generate", "--from", "x", "--prompt", "x", "--top-p", "2"}, kExitUsage, "top-p 2"},
      {{"eval", "--from", "/no/such", "--data", "x"}, kExitUsage, "/no/such"},
      {{}, kExitUsage, "Usage"},
  };
  for (const auto& c : cases) {
    const Ended ended = Strata(c.typed);
    EXPECT_EQ(ended.code, c.code) << ended.err;
    EXPECT_THAT(ended.err, ContainsRegex(c.says));
  }
}

TEST(CommandLine, HelpTellsOfACommandToo) {
  EXPECT_EQ(Strata({"help", "drain"}).err, Strata({"drain", "--help"}).err);
  EXPECT_THAT(Strata({"help", "drian"}).err, HasSubstr("did you mean drain"));
}

TEST(CommandLine, HelpAndVersionSucceed) {
  EXPECT_EQ(Strata({"--version"}).code, kExitDone);
  const Ended all = Strata({"--help"});
  EXPECT_EQ(all.code, kExitDone);
  for (const Command& command : AllCommands()) {
    EXPECT_EQ(all.err.find("  " + command.name + " ") != std::string::npos, command.listed);
    const Ended one = Strata({command.name, "--help"});
    EXPECT_EQ(one.code, kExitDone);
    EXPECT_THAT(one.err, HasSubstr("Usage: strata " + command.name));
    for (const Flag& flag : command.flags) EXPECT_THAT(one.err, HasSubstr(flag.name));
  }
}

TEST(CommandLine, HelpOffersOnlyTheFormatsThatTheCommandAccepts) {
  for (const Command& command : AllCommands()) {
    std::vector<std::string> offered;
    const std::string help = HelpOf(command);
    const size_t begin = help.find("--output FORMAT");
    if (begin == std::string::npos && help.find("--output ") != std::string::npos) {
      continue;  // it says where the command writes
    }
    ASSERT_NE(begin, std::string::npos) << command.name;
    const std::string line = help.substr(begin, help.find('\n', begin) - begin);
    for (const char* format : {"table", "json", "yaml", "name", "tree"}) {
      if (line.find(format) != std::string::npos) offered.emplace_back(format);
    }
    EXPECT_THAT(offered, testing::UnorderedElementsAreArray(command.outputs)) << command.name;
  }
  EXPECT_THAT(HelpOf(EvalCommand()), ContainsRegex("--output FORMAT +table, json or yaml\n"));
}

}  // namespace
}  // namespace strata::client
