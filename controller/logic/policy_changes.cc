#include "controller/logic/policy_changes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace strata::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Values = std::map<std::string, std::string>;  // key -> what people read

std::string Text(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    default: {
      const std::string text = reflection.GetString(message, &field);
      return text.empty() ? "none" : text;
    }
  }
}

// The values of an entry by their keys, those of an inner message behind its own: quota.KIND,
// buffer.nodes.
void AddValues(const std::string& prefix, const Message& entry, Values& values) {
  const auto& reflection = *entry.GetReflection();
  for (int i = 0; i < entry.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *entry.GetDescriptor()->field(i);
    const std::string key = prefix + field.name();
    if (field.is_map()) continue;
    if (field.is_repeated()) {
      std::vector<std::string> parts;
      for (int at = 0; at < reflection.FieldSize(entry, &field); ++at) {
        parts.push_back(reflection.GetRepeatedString(entry, &field, at));
      }
      if (!parts.empty()) values[key] = absl::StrJoin(parts, " ");
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (reflection.HasField(entry, &field)) {
        AddValues(key + ".", reflection.GetMessage(entry, &field), values);
      }
    } else if (key != "name") {
      // What has no default and was not said is no value.
      const bool said = reflection.HasField(entry, &field) || !field.has_presence();
      if (said) values[key] = Text(entry, field);
    }
  }
}

Values ValuesOf(const Message& entry) {
  Values values;
  AddValues("", entry, values);
  if (entry.GetDescriptor() == v1::ProjectPolicy::descriptor()) {
    for (const auto& [kind, devices] : static_cast<const v1::ProjectPolicy&>(entry).quota()) {
      values[absl::StrCat("quota.", kind)] = absl::StrCat(devices);
    }
  }
  return values;
}

// Who has each role: "submitter in nlp" -> "users/ann users/bob".
Values RolesOf(const v1::Policy& policy) {
  Values roles;
  for (const v1::RoleBinding& binding : policy.roles()) {
    const std::string where =
        binding.has_project() ? absl::StrCat(" in ", binding.project()) : std::string();
    std::string& members = roles[binding.role() + where];
    for (const std::string& member : binding.members()) {
      absl::StrAppend(&members, members.empty() ? "" : " ", member);
    }
  }
  return roles;
}

Values RevokedIn(const v1::Policy& policy) {
  Values revoked;
  for (const std::string& who : policy.revoked()) revoked[who] = "revoked";
  return revoked;
}

// "priority 0 -> 5, quota.h100 none -> 8"; empty when both are the same.
std::string Difference(const Values& old_values, const Values& new_values) {
  std::set<std::string> keys;
  for (const Values* values : {&old_values, &new_values}) {
    for (const auto& [key, value] : *values) keys.insert(key);
  }
  std::vector<std::string> parts;
  for (const std::string& key : keys) {
    const auto value = [&key](const Values& values) {
      const auto found = values.find(key);
      return found == values.end() ? std::string("none") : found->second;
    };
    if (value(old_values) == value(new_values)) continue;
    parts.push_back(absl::StrCat(key, " ", value(old_values), " -> ", value(new_values)));
  }
  return absl::StrJoin(parts, ", ");
}

v1::PolicyChange Change(const std::string& kind, const std::string& name,
                        v1::PolicyChange::Action action, std::string detail = "") {
  v1::PolicyChange change;
  change.set_kind(kind);
  change.set_name(name);
  change.set_action(action);
  change.set_detail(std::move(detail));
  return change;
}

v1::PolicyChange Compared(const std::string& kind, const std::string& name, const Values& before,
                          const Values& after) {
  std::string detail = Difference(before, after);
  const auto action = detail.empty() ? v1::PolicyChange::UNCHANGED : v1::PolicyChange::CHANGED;
  return Change(kind, name, action, std::move(detail));
}

// In the order of names.
template <typename Entries>
void CompareEntries(const std::string& kind, const Entries& before, const Entries& after,
                    std::vector<v1::PolicyChange>& changes) {
  std::map<std::string, std::pair<const Message*, const Message*>> pairs;
  for (const auto& entry : before) pairs[entry.name()].first = &entry;
  for (const auto& entry : after) pairs[entry.name()].second = &entry;
  for (const auto& [name, pair] : pairs) {
    const auto& [was, is] = pair;
    if (was == nullptr) {
      changes.push_back(Change(kind, name, v1::PolicyChange::CREATED));
    } else if (is == nullptr) {
      changes.push_back(Change(kind, name, v1::PolicyChange::REMOVED));
    } else {
      changes.push_back(Compared(kind, name, ValuesOf(*was), ValuesOf(*is)));
    }
  }
}

}  // namespace

std::vector<v1::PolicyChange> ChangesBetween(const v1::Policy& before, const v1::Policy& after) {
  std::vector<v1::PolicyChange> changes;
  CompareEntries("project", before.projects(), after.projects(), changes);
  CompareEntries("queue", before.queues(), after.queues(), changes);
  changes.push_back(
      Compared("scheduling", "", ValuesOf(before.scheduling()), ValuesOf(after.scheduling())));
  changes.push_back(Compared("timing", "", ValuesOf(before.timing()), ValuesOf(after.timing())));
  changes.push_back(Compared("roles", "", RolesOf(before), RolesOf(after)));
  changes.push_back(Compared("revoked", "", RevokedIn(before), RevokedIn(after)));
  return changes;
}

}  // namespace strata::controller
