#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "spec/prescan.h"
#include "spec/suggest.h"
#include "topology/import/fabric.h"
#include "topology/import/name_range.h"

namespace strata::topology {
namespace {

const std::vector<std::string>& Keys() {
  static const auto& keys = *new std::vector<std::string>{"switchname", "switches",  "nodes",
                                                          "linkspeed",  "blockname", "blocksizes"};
  return keys;
}

class SlurmConf {
 public:
  SlurmConf(Fabric& fabric, spec::Problems& problems) : fabric_(fabric), problems_(problems) {}

  void Read(absl::string_view text) {
    int line = 0;
    for (absl::string_view part : absl::StrSplit(text, '\n')) {
      ++line;
      const absl::string_view whole = part;
      part = absl::StripTrailingAsciiWhitespace(part.substr(0, part.find('#')));
      const bool continues = !part.empty() && part.back() == '\\';
      if (continues) part.remove_suffix(1);
      for (absl::string_view word :
           absl::StrSplit(part, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
        const auto column = static_cast<int>(word.data() - whole.data()) + 1;
        words_.push_back({std::string(word), {.line = line, .column = column}});
      }
      if (continues) continue;
      Statement();
      words_.clear();
    }
    Statement();
  }

 private:
  void Report(absl::string_view path, std::string what, std::string remedy = "") {
    problems_.Add({position_, spec::Shown(path), std::move(what), std::move(remedy)});
  }

  struct Word {
    std::string text;
    spec::Position position;
  };

  void Statement() {
    std::map<std::string, std::string> values;
    std::map<std::string, spec::Position> positions;
    for (const Word& at : words_) {
      const absl::string_view word = at.text;
      position_ = at.position;
      const size_t equals = word.find('=');
      const std::string key = absl::AsciiStrToLower(word.substr(0, equals));
      if (equals == absl::string_view::npos) {
        Report(word, "no KEY=VALUE", "names of a list stand without spaces between them");
        continue;
      }
      if (std::find(Keys().begin(), Keys().end(), key) == Keys().end()) {
        const std::string meant = spec::Nearest(key, Keys());
        Report(word.substr(0, equals), "unknown key",
               meant.empty() ? "the keys are SwitchName, Switches, Nodes, LinkSpeed, BlockName, "
                               "BlockSizes"
                             : absl::StrCat("did you mean ", meant, "?"));
      } else if (!values.try_emplace(key, word.substr(equals + 1)).second) {
        Report(word.substr(0, equals), "given twice", "remove one of them");
      } else {
        positions[key] = at.position;
      }
    }
    if (values.empty()) return;
    position_ = words_[0].position;
    if (values.contains("blocksizes")) return BlockSizes(values["blocksizes"]);
    const bool block = values.contains("blockname");
    FabricGroup group{.name = values[block ? "blockname" : "switchname"], .position = position_};
    if (group.name.empty()) return Report("", "neither SwitchName, BlockName nor BlockSizes");
    if (block && values.contains("switches")) Report("Switches", "a block has no switches");
    position_ = positions["switches"];
    group.children = Names("Switches", values["switches"]);
    position_ = positions["nodes"];
    group.nodes = Names("Nodes", values["nodes"]);
    (block ? fabric_.blocks : fabric_.switches).push_back(std::move(group));
  }

  std::vector<std::string> Names(const char* key, const std::string& list) {
    if (list.empty()) return {};
    auto names = ExpandHosts(list);
    if (!names.ok()) {
      Report(key,
             absl::StrCat(spec::Shown(list), ": ", absl::string_view(names.status().message())));
      return {};
    }
    return *std::move(names);
  }

  void BlockSizes(const std::string& list) {
    fabric_.block_sizes_at = position_;
    for (absl::string_view text : absl::StrSplit(list, ',')) {
      int64_t size = 0;
      if (!absl::SimpleAtoi(text, &size) || size < 1) {
        return Report("BlockSizes", absl::StrCat(spec::Shown(text), " is no number of nodes"));
      }
      fabric_.block_sizes.push_back(size);
    }
  }

  Fabric& fabric_;
  spec::Problems& problems_;
  std::vector<Word> words_;  // of the statement
  spec::Position position_;  // of what is looked at
};

}  // namespace

void ReadSlurmConf(absl::string_view text, Fabric& fabric, spec::Problems& problems) {
  if (!spec::IsUtf8(text)) {
    problems.Add({{}, "", "not UTF-8", "save the file as UTF-8"});
    return;
  }
  SlurmConf(fabric, problems).Read(text);
}

}  // namespace strata::topology
