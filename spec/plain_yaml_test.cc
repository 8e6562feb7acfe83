#include "spec/plain_yaml.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace strata::spec {
namespace {

// All that a tree says, places included.
std::string Told(const YamlNode& node) {
  std::string text =
      absl::StrCat(static_cast<int>(node.kind), "@", node.position.line, ":", node.position.column,
                   node.quoted ? "q" : "", node.flow ? "f" : "", "'", node.text, "'(");
  for (const YamlNode::Child& child : node.children) {
    absl::StrAppend(&text, child.key, "@", child.key_position.line, ":", child.key_position.column,
                    child.keyless ? "!" : "", "=", Told(*child.node), ";");
  }
  return text + ")";
}

// Whether the text was plain; then both readers must agree, and nothing is wrong with it.
bool Agrees(const std::string& text) {
  const std::unique_ptr<YamlNode> plain = ParsePlainYaml(text);
  if (plain == nullptr) return false;
  Problems problems("f");
  const std::unique_ptr<YamlNode> full = ParseYaml(text, problems);
  EXPECT_TRUE(problems.empty()) << problems.ToString() << text;
  if (full == nullptr) return false;
  EXPECT_EQ(Told(*plain), Told(*full)) << text;
  return true;
}

constexpr char kTopology[] = R"(# a cluster
levels: [zone, rack]   # outermost first
domain_level: rack
links:
  zone: {bytes_per_second: 7e9, latency_seconds: 2e-5}

  "rack":
    bytes_per_second: 50e9
nodes:
  - {name: n0, at: {zone: z0, rack: "r 0"}, device: h100, devices: 8, free: [0, 1]}
  # between
  - name: n1
    at:
      zone: 'z0'
    device: h100
    healthy: true
  -   name: -5
      device: a-b/c.d
)";

TEST(PlainYaml, IsReadAsTheFullReaderReadsIt) {
  EXPECT_TRUE(Agrees(kTopology));
  EXPECT_TRUE(Agrees("nodes:\n- name: a\n  at:\n    z: 1\n- name: b\nlevels: []\n"));
  EXPECT_TRUE(Agrees("- a\n- {}\n- [[1, 2], {a: b}]"));
  EXPECT_TRUE(Agrees("a:\n  - x: 1\n    y: 2\n  - x: 3\nb: 2\n"));
  EXPECT_TRUE(Agrees("{\n  \"a\": 1,\n  \"b\": [\n    {\"c\": \"d\"},\n    2\n  ]\n}\n"));
}

TEST(PlainYaml, LeavesTheUnusualToTheFullReader) {
  for (const char* text : {"",
                           "a",
                           "a:",
                           "a: b c",
                           "a: null",
                           "a: ~",
                           "a: &x b",
                           "a: *x",
                           "a: !x b",
                           "a: |\n  b\n",
                           "a: b\n  c\n",
                           "a: b\n c: d\n",
                           "---\na: b\n",
                           "a: b\n...\n",
                           "a:\tb\n",
                           "a: b\r\n",
                           "\xef\xbb\xbf"
                           "a: b",
                           "a: \"b\\n\"",
                           "a: 'b''c'",
                           "a: {b: c",
                           "a: {b: c}}",
                           "a: [b,]",
                           "a: [b: c]",
                           "a: b\na: c\n",
                           "? a\n: b\n",
                           "a: \"b\"#c",
                           "a: {b}",
                           " a: b\n",
                           "- - a\n",
                           "a: {b: c,d: e}",
                           "a: [1,2]",
                           "a: \xc3\xa9",
                           "a: {b:\n c}",
                           "a: {b: \"c\nd\"}"}) {
    EXPECT_EQ(ParsePlainYaml(text), nullptr) << text;
  }
}

TEST(PlainYaml, AgreesOnDamagedTextsToo) {
  static constexpr const char* kFragments[] = {"\n", " ", "  ",   "- ", ": ",  ":",  "{",
                                               "}",  "[", "]",    ", ", "#",   " #", "\"",
                                               "'",  "a", "null", "-",  "\n  "};
  int plain = 0;
  for (uint32_t seed = 0; seed < 6000; ++seed) {
    std::mt19937 random(seed);
    std::string text = kTopology;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text.erase(at, random() % 8);
      } else {
        text.insert(at, kFragments[random() % std::size(kFragments)]);
      }
    }
    plain += Agrees(text) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(plain, 500);
  EXPECT_LT(plain, 5500);
}

}  // namespace
}  // namespace strata::spec
