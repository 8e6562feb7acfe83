#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "data/records/jinja/interpreter.h"
#include "data/records/jinja/parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data::jinja {
namespace {

using testing::HasSubstr;

constexpr int64_t kBudget = 10'000'000;

Value Message(const std::string& role, const std::string& content) {
  Dict message;
  message.Set("role", Value::Text(role));
  message.Set("content", Value::Text(content));
  return *Value::Of(std::move(message));
}

absl::StatusOr<Rendering> RenderTemplate(const std::string& source, int64_t budget = kBudget) {
  absl::StatusOr<Block> block = ParseTemplate(source);
  if (!block.ok()) return block.status();
  RenderInput input;
  input.followed = *Value::Of({Message("user", " hi "), Message("assistant", "ok"),
                               Message("user", "<b>"), Message("assistant", "bye")});
  input.variables = {{"messages", input.followed},
                     {"x", Value::Of(int64_t{3})},
                     {"name", Value::Text("Ünï")},
                     {"nothing", Value()}};
  input.date.tm_year = 124;
  input.date.tm_mon = 6;
  input.date.tm_mday = 26;
  input.budget = budget;
  return Render(*block, input);
}

std::string Text(const std::string& source) {
  const absl::StatusOr<Rendering> rendering = RenderTemplate(source);
  return rendering.ok() ? rendering->text : "ERROR " + rendering.status().ToString();
}

std::string Error(const std::string& source, int64_t budget = kBudget) {
  const absl::StatusOr<Rendering> rendering = RenderTemplate(source, budget);
  return rendering.ok() ? "no error: " + rendering->text : rendering.status().ToString();
}

TEST(JinjaTest, WhiteSpaceAroundTagsGoesAsHuggingFaceSetsIt) {
  EXPECT_EQ(Text("a\n  {% if true %}\nb\n  {% endif %}\nc"), "a\nb\nc");
  EXPECT_EQ(Text("a {{ x }}\nb"), "a 3\nb");
  EXPECT_EQ(Text("a \n {{- x -}} \n b"), "a3b");
  EXPECT_EQ(Text("a {%- if true -%} \n b {%- endif %} c"), "ab c");
  EXPECT_EQ(Text("  {%+ if true %}b{% endif +%}\nc"), "  b\nc");
  EXPECT_EQ(Text("  {# comment #}\nb"), "b");
  EXPECT_EQ(Text("{% raw %}{{ x }}{% endraw %}"), "{{ x }}");
  EXPECT_EQ(Text("a\r\nb\n"), "a\nb");
  EXPECT_EQ(Text("{{ '}}' }}{{ {'a': {'b': 1}} }}"), "}}{'a': {'b': 1}}");
}

TEST(JinjaTest, PrecedenceAndOperatorsArePythons) {
  EXPECT_EQ(Text("{{ 1 + 2 * 3 ** 2 }} {{ -1|abs }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }}"),
            "19 1 -4 2 3.5");
  EXPECT_EQ(Text("{{ 1 ~ 'a' ~ none }} {{ 'ab' * 2 }} {{ [1] + [2] }}"), "1aNone abab [1, 2]");
  EXPECT_EQ(Text("{{ not true or true and false }} {{ 1 < 2 < 3 }} {{ 'a' in 'cab' }}"),
            "False True True");
  EXPECT_EQ(Text("{{ 'y' if x == 3 else 'n' }}{{ 'y' if x == 4 }}|{{ x is defined and y is not "
                 "defined }}"),
            "y|True");
  EXPECT_EQ(Text("{{ 1.0 }} {{ 1e16 }} {{ 1.5e-7 }} {{ 0.0001 }} {{ 123456.789 }}"),
            "1.0 1e+16 1.5e-07 0.0001 123456.789");
  EXPECT_EQ(Text("{{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none is none }}"),
            "True True False True");
}

TEST(JinjaTest, TextMethodsCountCharacters) {
  EXPECT_EQ(Text("{{ name|length }} {{ name[0] }} {{ name[::-1] }} {{ name[1:] }} {{ name[-1] }}"),
            "3 Ü ïnÜ nï ï");
  EXPECT_EQ(
      Text("[{{ ' \u3000a b\u00a0'.strip() }}] {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }}"),
      "[a b] ['a', 'b,c'] ['a', 'b']");
  EXPECT_EQ(Text("{{ 'xxaxx'.strip('x') }} {{ 'abc'.startswith(('x', 'a')) }} {{ "
                 "'a-b'.replace('-', '+') }}"),
            "a True a+b");
  EXPECT_EQ(
      Text("{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }} {{ 'ab'.rsplit('b')|tojson }}"),
      "b [\"a\", \"\"]");
  EXPECT_EQ(Text("{{ 'hello world'.title() }} {{ 'ABC'|lower }} {{ 'abc'|capitalize }}"),
            "Hello World abc Abc");
}

TEST(JinjaTest, WritesValuesAsPythonAndJsonDo) {
  EXPECT_EQ(Text("{{ {'a': [1, true, none, 'it\\'s'], 'b': (1,)} }}"),
            "{'a': [1, True, None, \"it's\"], 'b': (1,)}");
  EXPECT_EQ(Text("{{ 'a\\n\\t\\\\\\x00é\u200b' }}|{{ ['a\\n\\x00é\u200b'] }}"),
            std::string("a\n\t\\\0é\u200b|['a\\n\\x00é\\u200b']", 30));
  EXPECT_EQ(Text("{{ {'b': 1, 'a': [1.5, {}], 'c': 'é\\n<\"'}|tojson }}"),
            "{\"b\": 1, \"a\": [1.5, {}], \"c\": \"é\\n<\\\"\"}");
  EXPECT_EQ(Text("{{ {'b': [1, 2]}|tojson(indent=2) }}"), "{\n  \"b\": [\n    1,\n    2\n  ]\n}");
}

TEST(JinjaTest, ScopesAreThoseOfJinja) {
  EXPECT_EQ(
      Text("{% set a = 1 %}{% for i in range(2) %}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }}"),
      "221");
  EXPECT_EQ(Text("{% set n = namespace(a=1) %}{% for i in [1, 2] %}{% set n.a = n.a + i %}{% "
                 "endfor %}{{ n.a }}"),
            "4");
  EXPECT_EQ(Text("{% if true %}{% set a = 5 %}{% endif %}{{ a }}"), "5");
  EXPECT_EQ(
      Text("{% macro f(a, b='z') %}{{ a }}{{ b }}{{ x }}{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}"),
      "1z3123");
  EXPECT_EQ(Text("{% set t | trim %} a {% endset %}[{{ t }}]"), "[a]");
}

TEST(JinjaTest, LoopsHaveTheirVariablesFiltersAndJumps) {
  EXPECT_EQ(
      Text("{% for i in 'abc' %}{{ loop.index }}{{ i }}{{ ',' if not loop.last }}{% endfor %}"),
      "1a,2b,3c");
  EXPECT_EQ(Text("{% for i in range(5) if i is odd %}{{ loop.length }}{{ i }}{% endfor %}"),
            "2123");
  EXPECT_EQ(Text("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% "
                 "break %}{% endif %}{{ i }}{% endfor %}"),
            "02");
  EXPECT_EQ(Text("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}"), "a1");
  EXPECT_EQ(Text("{% for i in [] %}a{% else %}b{% endfor %}"), "b");
  EXPECT_EQ(Text("{{ messages|selectattr('role', 'equalto', "
                 "'user')|map(attribute='content')|join('|') }}"),
            " hi |<b>");
}

TEST(JinjaTest, UndefinedIsEmptyButHasNoAttributes) {
  EXPECT_EQ(Text("[{{ y }}{{ messages[0].z }}{{ messages[9] }}]{{ y|default('d') }}{{ 'a' in y }}"),
            "[]dFalse");
  EXPECT_THAT(Error("\n{{ y.z }}"), HasSubstr("template line 2: 'y' is undefined"));
  EXPECT_THAT(Error("{{ 'a' + y }}"), HasSubstr("'y' is undefined"));
  EXPECT_THAT(Error("{{ f(1) }}"), HasSubstr("'f' is undefined"));
}

TEST(JinjaTest, TellsWhereFollowedItemsWereWritten) {
  const auto rendering = RenderTemplate(
      "B{% for m in messages[1:] %}{% if m.role == 'assistant' %}A {% generation %}{{ m.content "
      "}}{% endgeneration %}."
      "{% endif %}{% endfor %}{% for m in messages %}{% set z = m %}{% endfor %}");
  ASSERT_TRUE(rendering.ok()) << rendering.status();
  EXPECT_EQ(rendering->text, "BA ok.A bye.");
  ASSERT_EQ(rendering->items.size(), 2u);
  EXPECT_EQ(rendering->items[0].first, 1u);
  EXPECT_EQ(rendering->items[0].second.begin, 1u);
  EXPECT_EQ(rendering->items[0].second.end, 6u);
  EXPECT_EQ(rendering->items[1].first, 3u);
  ASSERT_EQ(rendering->generations.size(), 2u);
  EXPECT_EQ(rendering->generations[1].begin, 8u);
  EXPECT_EQ(rendering->generations[1].end, 11u);
}

TEST(JinjaTest, TemplatesRaiseAndKnowTheDate) {
  EXPECT_THAT(Error("{{ raise_exception('no ' ~ x) }}"),
              HasSubstr("the template refuses this: no 3"));
  EXPECT_EQ(Text("{{ strftime_now('%d %b %Y') }}"), "26 Jul 2024");
}

TEST(JinjaTest, UnsupportedThingsAreRefusedByName) {
  EXPECT_THAT(Error("{% include 'a' %}"), HasSubstr("{% include %}"));
  EXPECT_THAT(Error("{{ x|urlize }}"), HasSubstr("'urlize'"));
  EXPECT_THAT(Error("{{ x is escaped }}"), HasSubstr("'escaped'"));
  EXPECT_THAT(Error("{{ name|upper }}"), HasSubstr("beyond ASCII"));
  EXPECT_THAT(Error("{{ messages.append(1) }}"), HasSubstr("may not change"));
  EXPECT_THAT(Error("{{ ''.format(1) }}"), HasSubstr("has no 'format'"));
  EXPECT_EQ(Text("{{ ''.__class__ }}"), "");
}

TEST(JinjaTest, DamagedTemplatesNameTheLine) {
  EXPECT_THAT(Error("\n\n{% if x %}"), HasSubstr("template line 3: expected {% endif %}"));
  EXPECT_THAT(Error("{{ x "), HasSubstr("template line 1: a tag without its end"));
  EXPECT_THAT(Error("{{ x) }}"), HasSubstr("unexpected ')'"));
  EXPECT_THAT(Error("{{ 'a }}"), HasSubstr("closing quote"));
  EXPECT_THAT(Error("{% for in x %}{% endfor %}"), HasSubstr("template line 1"));
  EXPECT_THAT(Error("\xff"), HasSubstr("UTF-8"));
  EXPECT_THAT(Error(std::string(kMaxTemplateBytes + 1, 'a')), HasSubstr("at most"));
}

TEST(JinjaTest, HostileTemplatesEndWithAnError) {
  const std::string open(20000, '('), closed(20000, ')');
  EXPECT_THAT(Error("{{ " + open + "1" + closed + " }}"), HasSubstr("nested too deeply"));
  std::string chain = "{{ 1", minus = "{{ ";
  for (int i = 0; i < 20000; ++i) {
    chain += "+1";
    minus += "-";
  }
  EXPECT_THAT(Error(chain + " }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(Error(minus + "1 }}"), HasSubstr("nested too deeply"));
  std::string blocks;
  for (int i = 0; i < 20000; ++i) blocks += "{% if x %}";
  EXPECT_THAT(Error(blocks), HasSubstr("nested too deeply"));
  EXPECT_THAT(Error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("too deeply"));
  EXPECT_THAT(
      Error("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"),
      HasSubstr("takes too long"));
  EXPECT_THAT(Error("{{ 'a' * 10 ** 15 }}"), HasSubstr("takes too long"));
  EXPECT_THAT(Error("{{ ('a' * 100000).replace('a', 'a' * 100000) }}"),
              HasSubstr("takes too long"));
  EXPECT_THAT(Error("{% set n = namespace(v=[1]) %}{% for i in range(99) %}{% set n.v = [n.v, n.v] "
                    "%}{% endfor %}{{ n.v }}"),
              HasSubstr("template line 1"));
  EXPECT_THAT(Error("{% set n = namespace() %}{% set n.n = n %}"), HasSubstr("plain data"));
  EXPECT_THAT(Error("{{ range(10 ** 9) }}"), HasSubstr("100000"));
  EXPECT_THAT(Error("{{ 10 ** 40 }}"), HasSubstr("64 bits"));
}

}  // namespace
}  // namespace strata::data::jinja
