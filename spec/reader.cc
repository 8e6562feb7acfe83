#include "spec/reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "proto/strata/v1/job.pb.h"
#include "spec/scalars.h"
#include "spec/schema.h"
#include "spec/suggest.h"

namespace strata::spec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Expected(const FieldDescriptor& field, bool element = false) {
  if (field.is_map()) {
    const bool texts =
        field.message_type()->map_value()->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    return texts ? "a section such as {team: nlp}" : "a section such as {h100: 64}";
  }
  if (field.is_repeated() && !element) return "a list";
  if (IsLayerRange(field)) return "layers such as 0-11, or one layer";
  if (IsDuration(field)) return "a duration such as 90m or 4h";
  const std::string word = WordOfZero(field);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a section of keys";
    case FieldDescriptor::CPPTYPE_INT64:
      if (MayBeShare(field)) return "a whole number or a share such as 2%";
      if (IsSize(field)) return "a size such as 64GiB";
      return word.empty() ? "a whole number" : absl::StrCat("a whole number or ", word);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ", absl::StrJoin(WordsOf(*field.enum_type()), ", "));
    default:
      return "a text";
  }
}

// {path: FILE}, {name: NAME}: what an element of a list begins with.
std::string ExampleOf(const FieldDescriptor& list) {
  const std::string& key = list.message_type()->field(0)->name();
  if (list.message_type()->full_name() == "strata.v1.SsdPath") return "{path: DIR, size: 100GiB}";
  return absl::StrCat("{", key, ": ", key == "path" ? "FILE" : absl::AsciiStrToUpper(key), "}");
}

class Reader {
 public:
  Reader(const Descriptor& root, PositionMap& positions, Problems& problems)
      : root_(root), positions_(positions), problems_(problems) {}

  void ReadSection(const YamlNode& node, const std::string& path, Message& section) {
    std::set<absl::string_view> seen;
    for (const YamlNode::Child& child : node.children) {
      if (child.keyless || !seen.insert(child.key).second) continue;  // told by the parser
      const std::string at = PathOf(path, child.key);
      const FieldDescriptor* field = FindKey(*section.GetDescriptor(), child.key);
      if (field == nullptr) {
        ReportUnknown(section, path, at, child);
      } else {
        ReadField(*field, child, at, section);
      }
    }
  }

  // What was misspelt is not missing as well, unless the right key is there too.
  void MarkDoubtful() {
    for (const std::string& path : meant_) {
      if (!positions_.Has(path)) problems_.MarkDoubtful(path);
    }
  }

 private:
  void Report(const Position& position, const std::string& path, std::string what,
              std::string remedy = "") {
    problems_.Add({position, path, std::move(what), std::move(remedy)});
  }

  void ReportUnknown(const Message& section, const std::string& path, const std::string& at,
                     const YamlNode::Child& child) {
    if (problems_.full()) return Report(child.key_position, at, "unknown field");
    const std::string before = child.key.substr(0, child.key.find(':'));
    if (before != child.key && FindKey(*section.GetDescriptor(), before) != nullptr) {
      meant_.push_back(PathOf(path, before));
      return Report(child.key_position, at, "unknown field",
                    absl::StrCat("write a space after the colon: ", before, ": ",
                                 child.key.substr(before.size() + 1)));
    }
    const Suggestion meant = child.key.empty()
                                 ? Suggestion{}
                                 : SuggestKey(root_, *section.GetDescriptor(), path, child.key);
    if (!meant.path.empty()) meant_.push_back(meant.path);
    Report(child.key_position, at, "unknown field",
           meant.text.empty() ? absl::StrCat("the keys here are ",
                                             absl::StrJoin(KeysOf(*section.GetDescriptor()), ", "))
                              : absl::StrCat("did you mean ", meant.text, "?"));
  }

  void ReportKind(const FieldDescriptor& field, const YamlNode& node, const std::string& at) {
    Report(node.position, at, absl::StrCat("must be ", Expected(field), ", not ", KindOf(node)));
  }

  void ReadField(const FieldDescriptor& field, const YamlNode::Child& child, const std::string& at,
                 Message& section) {
    const YamlNode& node = *child.node;
    const bool section_or_list =
        field.is_repeated() ||
        (field.message_type() != nullptr && !IsLayerRange(field) && !IsDuration(field));
    positions_.Add(at, section_or_list ? child.key_position : node.position);
    if (field.is_map()) return ReadMap(field, node, at, section);
    if (field.is_repeated()) return ReadList(field, node, at, section);
    if (field.message_type() != nullptr) {
      return ReadMessage(field, node, at,
                         *section.GetReflection()->MutableMessage(&section, &field));
    }
    if (node.kind != YamlNode::Kind::kScalar) return ReportKind(field, node, at);
    ReadScalar(field, node, at, section);
  }

  void ReadMessage(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                   Message& message) {
    const bool scalar = node.kind == YamlNode::Kind::kScalar;
    if (auto* parallel = dynamic_cast<strata::v1::ParallelSpec*>(&message)) {
      if (scalar && node.text == "auto") return parallel->set_automatic(true);
    }
    if (auto* recompute = dynamic_cast<strata::v1::RecomputeSpec*>(&message)) {
      return ReadRecompute(field, node, at, *recompute);
    }
    if (auto* memory = dynamic_cast<strata::v1::MemorySpec*>(&message)) {
      if (scalar && node.text == "auto") return memory->set_automatic(true);
    }
    if (auto* place = dynamic_cast<strata::v1::PlaceSpec*>(&message)) {
      if (scalar && node.text == "auto") return place->set_automatic(true);
    }
    if (auto* stream = dynamic_cast<strata::v1::StreamSpec*>(&message)) {
      if (scalar && node.text == "auto") return stream->set_automatic(true);
    }
    if (auto* shares = dynamic_cast<strata::v1::TierShares*>(&message)) {
      if (scalar) return ReadTier(node, at, *shares);
    }
    if (auto* range = dynamic_cast<strata::v1::LayerRange*>(&message)) {
      if (!scalar) return ReportKind(field, node, at);
      const auto layers = ParseRange(node.text);
      if (!layers.ok()) return Refuse(field, node, at, layers.status());
      range->set_first(layers->first);
      return range->set_last(layers->second);
    }
    if (auto* duration = dynamic_cast<google::protobuf::Duration*>(&message)) {
      return ReadDuration(field, node, at, *duration);
    }
    if (node.kind != YamlNode::Kind::kMapping) return ReportKind(field, node, at);
    ReadSection(node, at, message);
  }

  void ReadDuration(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                    google::protobuf::Duration& duration) {
    if (node.kind != YamlNode::Kind::kScalar || node.quoted) return ReportKind(field, node, at);
    const auto value = ParseDuration(node.text);
    if (!value.ok()) return Refuse(field, node, at, value.status());
    if (*value <= absl::ZeroDuration()) {
      return Report(node.position, at, absl::StrCat("must be greater than 0, not ", node.text));
    }
    const int64_t nanoseconds = absl::ToInt64Nanoseconds(*value);
    duration.set_seconds(nanoseconds / 1'000'000'000);
    duration.set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  }

  // All of it.
  void ReadTier(const YamlNode& node, const std::string& at, strata::v1::TierShares& shares) {
    const std::vector<std::string> tiers = KeysOf(*shares.GetDescriptor());
    if (std::find(tiers.begin(), tiers.end(), node.text) != tiers.end()) {
      const FieldDescriptor& tier = *FindKey(*shares.GetDescriptor(), node.text);
      return shares.GetReflection()->SetDouble(&shares, &tier, 1);
    }
    const std::string nearest = Nearest(node.text, tiers);
    Report(node.position, at,
           absl::StrCat("unknown tier ", Shown(node.text), " (the tiers are ",
                        absl::StrJoin(tiers, ", "), ")"),
           nearest.empty() ? "use one of them, or fractions such as {device: 0.4, host: 0.6}"
                           : absl::StrCat("did you mean ", nearest, "?"));
  }

  // A word, or {save: […], layers: …}.
  void ReadRecompute(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                     strata::v1::RecomputeSpec& recompute) {
    const FieldDescriptor& mode = *recompute.GetDescriptor()->FindFieldByName("mode");
    if (node.kind == YamlNode::Kind::kScalar) return ReadWord(mode, node, at, recompute);
    if (node.kind != YamlNode::Kind::kMapping) return ReportKind(field, node, at);
    ReadSection(node, at, recompute);
    if (!positions_.Has(at + ".save") && !positions_.Has(at + ".layers")) {
      return Report(node.position, at, "neither save nor layers is given",
                    "use none, selective or full, or such as {save: [qkv], layers: 0-11}");
    }
    // Nothing kept in any layer: a message without fields would be no answer at all.
    if (recompute.save().empty() && !recompute.has_layers() && !problems_.Concerns(at)) {
      recompute.set_mode(strata::v1::RecomputeSpec::MODE_FULL);
    }
  }

  void ReadList(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                Message& section) {
    if (node.kind != YamlNode::Kind::kSequence) return ReportKind(field, node, at);
    for (size_t i = 0; i < node.children.size(); ++i) {
      const YamlNode& element = *node.children[i].node;
      const std::string path = absl::StrCat(at, "[", i, "]");
      positions_.Add(path, element.position);
      if (field.message_type() == nullptr) {
        ReadElement(field, element, path, section);
        continue;
      }
      // Also for what is no section: indices stay those of the file.
      Message& added = *section.GetReflection()->AddMessage(&section, &field);
      if (element.kind != YamlNode::Kind::kMapping) {
        Report(element.position, path,
               absl::StrCat("must be a section such as ", ExampleOf(field), ", not ",
                            KindOf(element)));
        continue;
      }
      ReadSection(element, path, added);
    }
    if (node.children.empty() && at == "data.train") {
      Report(node.position, at, "an empty list", "name at least one");
    }
  }

  // Of a list of counts, numbers or texts. What is wrong leaves a 0 or an empty text in its place.
  void ReadElement(const FieldDescriptor& list, const YamlNode& node, const std::string& at,
                   Message& section) {
    const auto& reflection = *section.GetReflection();
    const bool text = list.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const bool scalar = node.kind == YamlNode::Kind::kScalar && (text || !node.quoted);
    if (!scalar) {
      Report(node.position, at,
             absl::StrCat("must be ", Expected(list, /*element=*/true), ", not ", KindOf(node)));
    }
    if (text) {
      if (scalar && node.text.empty()) Report(node.position, at, "an empty text");
      return reflection.AddString(&section, &list, scalar ? node.text : "");
    }
    const std::string shown = scalar ? node.text : "0";
    const auto add = [&](const auto& value, auto append) {
      const bool good =
          scalar && value.ok() && CheckBounds(node, at, at, static_cast<double>(*value));
      if (!value.ok()) {
        Report(node.position, at,
               absl::StrCat("must be ", Expected(list, /*element=*/true), ": ", Shown(node.text),
                            " ", absl::string_view(value.status().message())));
      }
      append(good ? *value : 0);
    };
    if (list.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      return add(ParseNumber(shown),
                 [&](double value) { reflection.AddDouble(&section, &list, value); });
    }
    add(ParseCount(shown), [&](int64_t value) { reflection.AddInt64(&section, &list, value); });
  }

  void ReadTextOfMap(const FieldDescriptor& map, const YamlNode::Child& child,
                     const std::string& at, Message& section) {
    const FieldDescriptor& value = *map.message_type()->map_value();
    if (child.node->kind != YamlNode::Kind::kScalar) return ReportKind(value, *child.node, at);
    Message& entry = *section.GetReflection()->AddMessage(&section, &map);
    entry.GetReflection()->SetString(&entry, map.message_type()->map_key(), child.key);
    entry.GetReflection()->SetString(&entry, &value, child.node->text);
  }

  // Names with counts, or with texts.
  void ReadMap(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
               Message& section) {
    if (node.kind != YamlNode::Kind::kMapping) return ReportKind(field, node, at);
    const FieldDescriptor& key = *field.message_type()->map_key();
    const FieldDescriptor& value = *field.message_type()->map_value();
    std::set<absl::string_view> seen;
    for (const YamlNode::Child& child : node.children) {
      if (child.keyless || !seen.insert(child.key).second) continue;  // told by the parser
      const std::string path = PathOf(at, child.key);
      positions_.Add(path, child.key_position);
      if (value.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        ReadTextOfMap(field, child, path, section);
        continue;
      }
      if (child.node->kind != YamlNode::Kind::kScalar || child.node->quoted) {
        ReportKind(value, *child.node, path);
        continue;
      }
      const auto count = ParseCount(child.node->text);
      if (!count.ok()) {
        Refuse(value, *child.node, path, count.status());
      } else if (CheckBounds(*child.node, at, path, static_cast<double>(*count))) {
        const auto& reflection = *section.GetReflection();
        Message& entry = *reflection.AddMessage(&section, &field);
        entry.GetReflection()->SetString(&entry, &key, child.key);
        entry.GetReflection()->SetInt64(&entry, &value, *count);
      }
    }
  }

  void Refuse(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
              const absl::Status& why) {
    Report(node.position, at,
           absl::StrCat("must be ", Expected(field), ": ", Shown(node.text), " ",
                        absl::string_view(why.message())));
  }

  // Whether a count or number lies inside the bounds of what is at `bounded`; tells if not.
  bool CheckBounds(const YamlNode& node, const std::string& bounded, const std::string& at,
                   double value) {
    const Bounds* bounds = FindBounds(bounded);
    if (bounds == nullptr || Within(*bounds, value)) return true;
    Report(node.position, at,
           absl::StrCat("must be ", Describe(*bounds, value), ", not ", Shown(node.text)));
    return false;
  }

  void ReadScalar(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                  Message& section) {
    const auto& reflection = *section.GetReflection();
    const auto refuse = [&](const absl::Status& why) { Refuse(field, node, at, why); };
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      if (node.text.empty()) return Report(node.position, at, "an empty text");
      return reflection.SetString(&section, &field, node.text);
    }
    // A word is the same text with and without quotes; a number in quotes is a text.
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      return ReadWord(field, node, at, section);
    }
    const std::string zero = WordOfZero(field);
    if (!zero.empty() && node.text == zero) return reflection.SetInt64(&section, &field, 0);
    if (node.quoted && !IsSize(field)) return ReportKind(field, node, at);
    if (MayBeShare(field) && absl::EndsWith(node.text, "%"))
      return ReadShare(field, node, at, section);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64: {
        const auto value = IsSize(field) ? ParseSize(node.text) : ParseCount(node.text);
        if (!value.ok()) return refuse(value.status());
        if (CheckBounds(node, at, at, static_cast<double>(*value))) {
          reflection.SetInt64(&section, &field, *value);
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const auto value = ParseNumber(node.text);
        if (!value.ok()) return refuse(value.status());
        if (CheckBounds(node, at, at, *value)) reflection.SetDouble(&section, &field, *value);
        return;
      }
      case FieldDescriptor::CPPTYPE_BOOL: {
        const auto value = ParseFlag(node.text);
        if (!value.ok()) return refuse(value.status());
        return reflection.SetBool(&section, &field, *value);
      }
      default:
        return;  // files have no other types
    }
  }

  // `2%`: kept as 0.02 in the field beside.
  void ReadShare(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                 Message& section) {
    const auto percent = ParseNumber(absl::StripSuffix(node.text, "%"));
    if (!percent.ok()) return Refuse(field, node, at, percent.status());
    if (*percent < 0 || *percent > 100) {
      return Report(node.position, at,
                    absl::StrCat("must be from 0% to 100%, not ", Shown(node.text)));
    }
    const FieldDescriptor& share = *section.GetDescriptor()->FindFieldByName("fraction");
    section.GetReflection()->SetDouble(&section, &share, *percent / 100);
  }

  void ReadWord(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                Message& section) {
    const EnumValueDescriptor* value = FindWord(*field.enum_type(), node.text);
    if (value != nullptr) return section.GetReflection()->SetEnum(&section, &field, value);
    const std::vector<std::string> words = WordsOf(*field.enum_type());
    const std::string nearest = Nearest(node.text, words);
    Report(node.position, at,
           absl::StrCat("unknown value ", Shown(node.text), " (the values are ",
                        absl::StrJoin(words, ", "), ")"),
           nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?"));
  }

  const Descriptor& root_;
  PositionMap& positions_;
  Problems& problems_;
  std::vector<std::string> meant_;  // paths that unknown keys seem to stand for
};

}  // namespace

void ReadTree(const YamlNode& root, absl::string_view example, Message& file,
              PositionMap& positions, Problems& problems) {
  if (root.kind == YamlNode::Kind::kNull) return;  // the required keys are missing then
  if (root.kind != YamlNode::Kind::kMapping) {
    problems.Add({root.position, "", absl::StrCat("must be a section of keys, not ", KindOf(root)),
                  absl::StrCat("such a file begins like `", example, "`")});
    return;
  }
  Reader reader(*file.GetDescriptor(), positions, problems);
  reader.ReadSection(root, "", file);
  reader.MarkDoubtful();
}

}  // namespace strata::spec
