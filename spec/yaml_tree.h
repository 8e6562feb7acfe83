// A YAML text as a tree that remembers where everything stands. Only plain YAML: no anchors,
// aliases, tags, second documents or duplicate keys.
#ifndef STRATA_SPEC_YAML_TREE_H_
#define STRATA_SPEC_YAML_TREE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "spec/prescan.h"
#include "spec/problems.h"

namespace strata::spec {

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  struct Child {
    std::string key;  // empty in a sequence
    Position key_position;
    std::unique_ptr<YamlNode> node;
    bool keyless = false;  // no text stands where the key should (already a problem)
  };

  Kind kind = Kind::kNull;
  Position position;
  bool quoted = false;  // a scalar in quotes or a block scalar: always text
  bool flow = false;    // a collection written as {…} or […]
  std::string text;     // of a scalar
  std::vector<Child> children;

  // The child of a mapping with this key, or null.
  Child* Find(absl::string_view key);
  const Child* Find(absl::string_view key) const;
};

// The path of a key in the section at `section`, as messages show it; an empty key is "".
std::string PathOf(absl::string_view section, absl::string_view key);

// Parses one document. Problems have their places; what could be read despite them is returned,
// null when the text is not YAML at all. An empty text gives a kNull node.
std::unique_ptr<YamlNode> ParseYaml(absl::string_view text, Problems& problems,
                                    const FileKind& kind = {});

// "a list", "the text \"8\"", …: what stands there instead of what should.
std::string KindOf(const YamlNode& node);

}  // namespace strata::spec

#endif  // STRATA_SPEC_YAML_TREE_H_
