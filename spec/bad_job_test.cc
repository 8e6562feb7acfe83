// Job files with one wrong line each: the error stands at that line, at its key or value, and says
// what is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "spec/good_job.h"
#include "spec/job_file.h"
#include "spec/validate.h"

namespace strata::spec {
namespace {

struct Case {
  const char* name;
  const char* old_text;
  const char* new_text;
  const char* path;  // regular expressions
  const char* says;
  std::vector<std::string> at = {};  // other lines as much to blame
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"unknown key modle", "model:", "modle:", "modle", R"(unknown.*did you mean.*\bmodel\b)", {}},
    {"unknown key model.hiden",
     "hidden:",
     "hiden:",
     R"(model\.hiden)",
     R"(unknown.*did you mean.*\bhidden\b)",
     {}},
    {"unknown key model.rope.thta",
     "theta:",
     "thta:",
     R"(model\.rope\.thta)",
     R"(unknown.*did you mean.*\btheta\b)",
     {}},
    {"unknown key data.shufle",
     "shuffle:",
     "shufle:",
     R"(data\.shufle)",
     R"(unknown.*did you mean.*\bshuffle\b)",
     {}},
    {"unknown key data.train[0].pth",
     "path:",
     "pth:",
     R"(data\.train\[0\]\.pth)",
     R"(unknown.*did you mean.*\bpath\b)",
     {}},
    {"unknown key data.validation.fractoin",
     "fraction:",
     "fractoin:",
     R"(data\.validation\.fractoin)",
     R"(unknown.*did you mean.*\bfraction\b)",
     {}},
    {"unknown key train.globalbatch",
     "global_batch:",
     "globalbatch:",
     R"(train\.globalbatch)",
     R"(unknown.*did you mean.*\bglobal_batch\b)",
     {}},
    {"key of a lower level",
     "  steps: 4\n",
     "  steps: 4\n  learning_rte: 0.1\n",
     R"(train\.learning_rte)",
     R"(unknown.*did you mean.*train\.optimizer\.learning_rate)",
     {}},
    {"key of AdamW",
     "    name: adamw\n",
     "    name: adamw\n    bata1: 0.9\n",
     R"(train\.optimizer\.bata1)",
     R"(unknown.*did you mean.*\bbeta1\b)",
     {}},
    {"unknown key train.schedule.warmup_step",
     "warmup_steps:",
     "warmup_step:",
     R"(train\.schedule\.warmup_step)",
     R"(unknown.*did you mean.*\bwarmup_steps\b)",
     {}},
    {"unknown key parallel.shrad",
     "shard:",
     "shrad:",
     R"(parallel\.shrad)",
     R"(unknown.*did you mean.*\bshard\b)",
     {}},
    {"unknown key resources.devise",
     "device:",
     "devise:",
     R"(resources\.devise)",
     R"(unknown.*did you mean.*\bdevice\b)",
     {}},
    {"unknown key evaluate.sequnces",
     "sequences:",
     "sequnces:",
     R"(evaluate\.sequnces)",
     R"(unknown.*did you mean.*\bsequences\b)",
     {}},
    {"unknown key restart.max_without_progres",
     "max_without_progress:",
     "max_without_progres:",
     R"(restart\.max_without_progres)",
     R"(unknown.*did you mean.*\bmax_without_progress\b)",
     {}},
    {"unknown key checkpoint.diretory",
     "directory:",
     "diretory:",
     R"(checkpoint\.diretory)",
     R"(unknown.*did you mean.*\bdirectory\b)",
     {}},
    {"word for a count", "layers: 2", "layers: two", R"(model\.layers)", "two", {}},
    {"list for a count", "layers: 2", "layers: [2]", R"(model\.layers)", "", {}},
    {"fraction for a count", "  steps: 4", "  steps: 1.5", R"(train\.steps)", R"(1\.5)", {}},
    {"word for a boolean",
     "shuffle: true",
     "shuffle: perhaps",
     R"(data\.shuffle)",
     "true.*false",
     {}},
    {"number for a section", "  rope:\n    theta: 10000", "  rope: 7", R"(model\.rope)", "", {}},
    {"null for a count", "vocab: 256", "vocab: null", R"(model\.vocab)", "", {}},
    {"unknown family",
     "family: llama",
     "family: lama",
     R"(model\.family)",
     R"(lama.*\bllama\b)",
     {}},
    {"unknown precision",
     "precision: f32",
     "precision: f23",
     R"(train\.precision)",
     R"(f23.*\bf32\b)",
     {}},
    {"unknown schedule",
     "name: cosine",
     "name: cosin",
     R"(train\.schedule\.name)",
     R"(cosin.*\bcosine\b)",
     {}},
    {"unknown sharding",
     "shard: none",
     "shard: zero9",
     R"(parallel\.shard)",
     R"(zero9.*\bzero1\b)",
     {}},
    {"unknown device", "device: cpu", "device: toaster", R"(resources\.device)", "toaster", {}},
    {"negative count", "layers: 2", "layers: -1", R"(model\.layers)", "-1", {}},
    {"zero layers", "layers: 2", "layers: 0", R"(model\.layers)", "", {}},
    {"zero steps", "  steps: 4", "  steps: 0", R"(train\.steps)", "", {}},
    {"zero sequence", "sequence: 64", "sequence: 0", R"(train\.sequence)", "", {}},
    {"count beyond 64 bits",
     "hidden: 64",
     "hidden: 99999999999999999999999",
     R"(model\.hidden)",
     "",
     {}},
    {"NaN",
     "learning_rate: 0.001",
     "learning_rate: .nan",
     R"(train\.optimizer\.learning_rate)",
     "",
     {}},
    {"infinity",
     "learning_rate: 0.001",
     "learning_rate: .inf",
     R"(train\.optimizer\.learning_rate)",
     "",
     {}},
    {"negative rate",
     "learning_rate: 0.001",
     "learning_rate: -0.001",
     R"(train\.optimizer\.learning_rate)",
     "",
     {}},
    {"beta1 of 1",
     "    name: adamw\n",
     "    name: adamw\n    beta1: 1.0\n",
     R"(train\.optimizer\.beta1)",
     "",
     {}},
    {"negative clip",
     "  steps: 4\n",
     "  steps: 4\n  gradient_clip: -1\n",
     R"(train\.gradient_clip)",
     "",
     {}},
    {"fraction above 1",
     "fraction: 0.1",
     "fraction: 1.5",
     R"(data\.validation\.fraction)",
     R"(1\.5)",
     {}},
    {"heads not divisible by kv_heads",
     "kv_heads: 2",
     "kv_heads: 3",
     R"(model\.(kv_)?heads)",
     "divi|multiple",
     {"heads: 4"}},
    {"hidden not divisible by heads",
     "hidden: 64",
     "hidden: 66",
     R"(model\.(hidden|heads))",
     "divi|multiple",
     {"heads: 4"}},
    {"odd head size",
     "hidden: 64",
     "hidden: 60",
     R"(model\.(hidden|heads|head_size))",
     "even|multiple of 2|15",
     {"heads: 4"}},
    {"context below sequence",
     "vocab: 256",
     "vocab: 256\n  context: 32",
     R"(model\.context|train\.sequence)",
     "32",
     {"sequence: 64"}},
    {"vocab smaller than the data's bytes",
     "vocab: 256",
     "vocab: 100",
     R"(model\.vocab|data\.train)",
     "100|256",
     {"train:", "- path:"}},
    {"batch not divisible by micro_batch",
     "micro_batch: 1",
     "micro_batch: 3",
     R"(train\.(global_batch|micro_batch))",
     "divi|multiple",
     {"global_batch: 8"}},
    {"batch not divisible by ranks",
     "parallel:\n  data: 1",
     "parallel:\n  data: 3",
     R"(train\.(global_batch|micro_batch)|parallel\.data)",
     "divi|multiple",
     {"global_batch: 8", "micro_batch: 1"}},
    {"ranks other than the degrees' product",
     "device: cpu",
     "device: cpu\n  ranks: 3",
     R"(resources\.ranks|parallel\.data)",
     "3",
     {"parallel:\n  data: 1"}},
    {"no such order",
     "shard: none",
     "micro_order: random",
     R"(parallel\.micro_order)",
     "random.*layer_first",
     {}},
    {"no such pipeline schedule",
     "shard: none",
     "pipeline_schedule: 2f2b",
     R"(parallel\.pipeline_schedule)",
     "2f2b.*1f1b",
     {}},
    {"no such context method",
     "shard: none",
     "context_method: star",
     R"(parallel\.context_method)",
     "star.*ring",
     {}},
    {"more stages than layers",
     "shard: none",
     "pipeline: 3",
     R"(parallel\.pipeline)",
     R"(layers \(2\))",
     {}},
    {"two virtual stages of zbv",
     "shard: none",
     "pipeline_schedule: zbv\n  virtual_stages: 1",
     R"(parallel\.virtual_stages)",
     "zbv has 2",
     {}},
    {"stages of other layers in all",
     "shard: none",
     "stages: [3]",
     R"(parallel\.stages)",
     "3 layers in all, the model has 2",
     {}},
    {"experts of a dense model",
     "shard: none",
     "expert: 2",
     R"(parallel\.expert)",
     "expert 2 of a dense model",
     {}},
    {"shard group without shards",
     "shard: none",
     "shard_group: 2",
     R"(parallel\.shard_group)",
     "without shards",
     {}},
    {"context that does not divide the sequence",
     "shard: none",
     "context: 3",
     R"(parallel\.context)",
     "64 is not divisible by 2 × context 3",
     {}},
    {"layers of recompute beyond the last",
     "shard: none",
     "recompute:\n    save: []\n    layers: 1-9",
     R"(parallel\.recompute\.layers)",
     "1-9",
     {}},
    {"heads not divisible by tensor",
     "parallel:\n  data: 1",
     "parallel:\n  tensor: 3\n  data: 1",
     R"(parallel\.tensor|model\.(kv_)?heads)",
     "3",
     {"kv_heads: 2", "heads: 4"}},
};

// Regular expression of LINE:COLUMN: for every line of the fragments, at its key or its value.
std::string Places(const std::string& text, const std::vector<std::string>& fragments) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::vector<std::string> places;
  for (std::string fragment : fragments) {
    const size_t begin = text.find(fragment);
    EXPECT_NE(begin, std::string::npos) << fragment;
    const auto first = std::count(text.begin(), text.begin() + static_cast<long>(begin), '\n');
    while (!fragment.empty() && fragment.back() == '\n') fragment.pop_back();
    const auto more = std::count(fragment.begin(), fragment.end(), '\n');
    for (auto index = first; index <= first + more; ++index) {
      const std::string& line = lines[static_cast<size_t>(index)];
      size_t key = line.find_first_not_of(' ');
      if (line.compare(key, 2, "- ") == 0) key += 2;
      const size_t value = line.find_first_not_of(' ', line.find(':') + 1);
      for (const size_t column : {key, value == std::string::npos ? key : value}) {
        places.push_back(absl::StrCat(index + 1, ":", column + 1));
      }
    }
  }
  return absl::StrCat("job\\.yaml:(", absl::StrJoin(places, "|"), "): ");
}

std::string ProblemsOf(const std::string& text, const ReadOptions& options = {}) {
  Problems problems("job.yaml");
  const JobFile file = ReadJob(text, options, problems);
  CheckSupported(file.job, file.positions, problems);
  return problems.ToString();
}

bool Says(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern, std::regex::icase));
}

class BadJob : public testing::TestWithParam<Case> {};

TEST_P(BadJob, IsRefusedAtItsPlace) {
  const Case& c = GetParam();
  std::string text = GoodJob();
  const size_t at = text.find(c.old_text);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(c.old_text).size(), c.new_text);
  std::vector<std::string> fragments = c.at;
  fragments.push_back(c.new_text);
  const std::string pattern =
      absl::StrCat(Places(text, fragments), "(", c.path, ")\\b.*(", c.says, ")");
  const std::string told = ProblemsOf(text);
  EXPECT_TRUE(Says(told, pattern)) << told << "\nagainst " << pattern;
}

INSTANTIATE_TEST_SUITE_P(OneLine, BadJob, testing::ValuesIn(kCases));

TEST(GoodJob, HasNoProblem) { EXPECT_EQ(ProblemsOf(GoodJob()), ""); }

struct Malformed {
  const char* name;
  std::string text;
  std::string line;  // regular expression
  const char* says;
};

std::string Repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string Mappings(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  return text;
}

std::string AliasBomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string alias = absl::StrCat("*a", i - 1);
    absl::StrAppend(&text, "a", i, ": &a", i, " [", alias, Repeat(", " + alias, 9), "]\n");
  }
  return text + GoodJob();
}

std::string ManyKeys(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, "key", i, ": 1\n");
  return text;
}

std::vector<Malformed> MalformedFiles() {
  const std::string good = GoodJob();
  const auto lines = std::count(good.begin(), good.end(), '\n');
  return {
      {"tab as indentation", Changed("  layers: 2", "\tlayers: 2"), "4", "tab"},
      {"unclosed quote", Changed("layers: 2", "layers: \"2"), R"(\d+)", "quote"},
      {"unclosed bracket", Changed("layers: 2", "layers: [2"), R"(\d+)", ""},
      {"wrong indentation", Changed("  layers: 2", "   layers: 2"), "[345]", ""},
      {"duplicate key", Changed("layers: 2", "layers: 2\n  layers: 3"), "5",
       R"(model\.layers.*given twice)"},
      {"duplicate section", good + "model:\n  layers: 2\n", absl::StrCat(lines + 1),
       "model: given twice"},
      {"missing colon", Changed("layers: 2", "layers 2"), "[345]", ""},
      {"list at the top", "- model\n- data\n", "1", "section"},
      {"empty file", "", "1", R"(\bmodel\b)"},
      {"only a comment", "# nothing\n", "1", R"(\bmodel\b)"},
      {"only `model`", good.substr(0, good.find("data:")), R"(\d+)", R"(data\.train\b.*required)"},
      {"two documents", good + "---\n" + good, absl::StrCat(lines + 1), "document"},
      {"object tag", Changed("layers: 2", "layers: !!python/object:os.system 2"), "4", "tag"},
      {"tag on a section", Changed("model:", "model: !map"), "2", "tag"},
      {"bytes that are no text", "\x93\xf8\x01", "1", "UTF-8"},
      {"not UTF-8", Changed("name: bad", "name: caf\xe9"), "1", "UTF-8"},
      {"overlong UTF-8", Changed("name: bad", "name: \xc0\xaf"), "1", "UTF-8"},
      {"surrogate in UTF-8", Changed("name: bad", "name: \xed\xa0\x80"), "1", "UTF-8"},
      {"NUL byte", Changed("layers: 2", std::string("layers: \0 2", 11)), "4", "NUL"},
      {"10 MB", Repeat("key: 1\n", 1'400'000), "1", "too large"},
      {"unknown keys up to the limit", ManyKeys(70'000), R"(\d+)", "unknown"},
      {"10,000 levels, flow", "model: " + Repeat("[", 10'000) + Repeat("]", 10'000) + "\n", "1",
       "deep"},
      {"10,000 levels, block", Repeat("- ", 10'000) + "x\n", "1", "deep"},
      {"10,000 levels, keys", Repeat("? ", 10'000) + "x\n", "1", "deep"},
      {"10,000 levels behind a bracket in a text",
       "name: a [b\nmodel:\n  - " + Repeat("- ", 10'000) + "x\n", R"(\d+)", "deep"},
      {"1,000 levels of mappings", Mappings(1000), R"(\d+)", "deep"},
      {"alias bomb", AliasBomb(), R"(\d+)", "alias|anchor"},
      {"merge key", Changed("model:", "model:\n  <<: *x"), R"(\d+)", "anchor"},
      {"list as a key", Changed("  layers: 2", "  ? [layers]\n  : 2"), R"(\d+)", "key"},
      {"key without a name", Changed("  layers: 2", "  : 2"), "4", "key is missing"},
  };
}

TEST(MalformedFile, IsRefusedAtAPlace) {
  for (const Malformed& file : MalformedFiles()) {
    const std::string told = ProblemsOf(file.text);
    const std::string pattern =
        absl::StrCat("job\\.yaml:(", file.line, "):\\d+: .*(", file.says, ")");
    // std::regex recurses once per character: look at the beginning only.
    EXPECT_TRUE(Says(told.substr(0, 3000), pattern)) << file.name << ": " << told.substr(0, 3000);
    EXPECT_LT(told.size(), 20'000u) << file.name;
  }
}

TEST(EmptyKey, IsAnUnknownFieldAtEveryLevel) {
  EXPECT_TRUE(Says(ProblemsOf(GoodJob() + "\"\": 1\n"), R"(:\d+:1: "": unknown field)"));
  EXPECT_TRUE(Says(ProblemsOf(Changed("layers: 2", "layers: 2\n  '': 1")),
                   R"(job\.yaml:5:3: model\."": unknown field.*the keys here are)"));
  EXPECT_TRUE(Says(ProblemsOf(Changed("- path: /box/text.txt", "- {path: /box/text.txt, \"\": 1}")),
                   R"(data\.train\[0\]\."": unknown field)"));
  EXPECT_TRUE(Says(ProblemsOf(Changed("layers: 2", "layers: 2\n  '': 1\n  \"\": 1")),
                   R"(job\.yaml:6:3: model\."": given twice \(first in line 5\))"));
}

TEST(TextThatIsNotYaml, HasThatOneProblem) {
  for (const std::string& text :
       {Changed("  layers: 2", "\tlayers: 2"), Changed("layers: 2", "layers: \"2"),
        Changed("  layers: 2", "   layers: 2"), std::string("- model\n- data\n")}) {
    const std::string told = ProblemsOf(text);
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  }
}

TEST(FourProblems, AreToldAtOnceInTheirOrder) {
  std::string text = Changed("hidden: 64", "hiden: 64");
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"  steps: 4", "  steps: -4"},
                                 {"shuffle: true", "shuffle: 3"},
                                 {"shard: none", "shard: zero9"}}) {
    text.replace(text.find(from), from.size(), to);
  }
  EXPECT_EQ(ProblemsOf(text),
            "job.yaml:5:3: model.hiden: unknown field — did you mean hidden?\n"
            "job.yaml:15:12: data.shuffle: must be true or false: 3 is neither true nor false\n"
            "job.yaml:19:10: train.steps: must be at least 1, not -4\n"
            "job.yaml:34:10: parallel.shard: unknown value zero9 (the values are none, zero1, "
            "zero2, zero3) — did you mean zero1?\n");
}

TEST(ManyProblems, AreCountedNotPrinted) {
  const std::string told = ProblemsOf(ManyKeys(1000));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), static_cast<long>(Problems::kMost) + 1);
  EXPECT_TRUE(Says(told.substr(told.size() - 60), "and 95[0-9] more problems")) << told;
}

}  // namespace
}  // namespace strata::spec
