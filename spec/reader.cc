#include "spec/reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "spec/scalars.h"
#include "spec/schema.h"
#include "spec/suggest.h"

namespace strata::spec {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Expected(const FieldDescriptor& field) {
  if (field.is_repeated()) return "a list";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a section of keys";
    case FieldDescriptor::CPPTYPE_INT64:
      return "a whole number";
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

class Reader {
 public:
  Reader(PositionMap& positions, Problems& problems) : positions_(positions), problems_(problems) {}

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
    const Suggestion meant =
        child.key.empty() ? Suggestion{} : SuggestKey(*section.GetDescriptor(), path, child.key);
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
    const bool section_or_list = field.is_repeated() || field.message_type() != nullptr;
    positions_.Add(at, section_or_list ? child.key_position : node.position);
    if (field.is_repeated()) return ReadList(field, node, at, section);
    if (field.message_type() != nullptr) {
      if (at == "parallel" && node.kind == YamlNode::Kind::kScalar && node.text == "auto") {
        auto* message = section.GetReflection()->MutableMessage(&section, &field);
        static_cast<strata::v1::ParallelSpec*>(message)->set_automatic(true);
        return;
      }
      if (node.kind != YamlNode::Kind::kMapping) return ReportKind(field, node, at);
      return ReadSection(node, at, *section.GetReflection()->MutableMessage(&section, &field));
    }
    if (node.kind != YamlNode::Kind::kScalar) return ReportKind(field, node, at);
    ReadScalar(field, node, at, section);
  }

  void ReadList(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                Message& section) {
    if (node.kind != YamlNode::Kind::kSequence) return ReportKind(field, node, at);
    for (size_t i = 0; i < node.children.size(); ++i) {
      const YamlNode& element = *node.children[i].node;
      const std::string path = absl::StrCat(at, "[", i, "]");
      positions_.Add(path, element.position);
      if (element.kind != YamlNode::Kind::kMapping) {
        Report(element.position, path,
               absl::StrCat("must be a section such as {path: FILE}, not ", KindOf(element)));
        continue;
      }
      ReadSection(element, path, *section.GetReflection()->AddMessage(&section, &field));
    }
    if (node.children.empty()) Report(node.position, at, "an empty list", "name at least one");
  }

  // Whether a count or number lies inside its bounds; tells if not.
  bool CheckBounds(const YamlNode& node, const std::string& at, double value) {
    const Bounds* bounds = FindBounds(at);
    if (bounds == nullptr || Within(*bounds, value)) return true;
    Report(node.position, at,
           absl::StrCat("must be ", Describe(*bounds, value), ", not ", Shown(node.text)));
    return false;
  }

  void ReadScalar(const FieldDescriptor& field, const YamlNode& node, const std::string& at,
                  Message& section) {
    const auto& reflection = *section.GetReflection();
    const auto refuse = [&](const absl::Status& why) {
      Report(node.position, at,
             absl::StrCat("must be ", Expected(field), ": ", Shown(node.text), " ",
                          absl::string_view(why.message())));
    };
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      if (node.text.empty()) return Report(node.position, at, "an empty text");
      return reflection.SetString(&section, &field, node.text);
    }
    // A word is the same text with and without quotes; a number in quotes is a text.
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      return ReadWord(field, node, at, section);
    }
    if (at == "train.micro_batch" && node.text == "auto") {
      return reflection.SetInt64(&section, &field, 0);
    }
    if (node.quoted) return ReportKind(field, node, at);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64: {
        const auto value = ParseCount(node.text);
        if (!value.ok()) return refuse(value.status());
        if (CheckBounds(node, at, static_cast<double>(*value))) {
          reflection.SetInt64(&section, &field, *value);
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const auto value = ParseNumber(node.text);
        if (!value.ok()) return refuse(value.status());
        if (CheckBounds(node, at, *value)) reflection.SetDouble(&section, &field, *value);
        return;
      }
      case FieldDescriptor::CPPTYPE_BOOL: {
        const auto value = ParseFlag(node.text);
        if (!value.ok()) return refuse(value.status());
        return reflection.SetBool(&section, &field, *value);
      }
      default:
        return;  // JobSpec has no other types; schema_test holds it to that
    }
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

  PositionMap& positions_;
  Problems& problems_;
  std::vector<std::string> meant_;  // paths that unknown keys seem to stand for
};

}  // namespace

void ReadTree(const YamlNode& root, strata::v1::JobSpec& job, PositionMap& positions,
              Problems& problems) {
  if (root.kind == YamlNode::Kind::kNull) return;  // the required keys are missing then
  if (root.kind != YamlNode::Kind::kMapping) {
    problems.Add({root.position, "", absl::StrCat("must be a section of keys, not ", KindOf(root)),
                  "a job file begins like `model: {family: llama, …}`"});
    return;
  }
  Reader reader(positions, problems);
  reader.ReadSection(root, "", job);
  reader.MarkDoubtful();
}

}  // namespace strata::spec
