// Join tokens: what lets nodes without a certificate have one, how often and until when.
#ifndef STRATA_CONTROLLER_LOGIC_JOIN_TOKENS_H_
#define STRATA_CONTROLLER_LOGIC_JOIN_TOKENS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/logic/effects.h"

namespace strata::controller {

// What of a token is shown with a node's request.
struct Enrolment {
  std::string id;             // of the token
  std::string secret_digest;  // SHA-256
  std::string node;           // NAME
  std::string key_digest;     // SHA-256 of what the certificate is asked for
};

// Kept in the tables "tokens" (key: ID, value: JoinTokenRecord) and "token_uses" (key: ID/NODE,
// value: the key's digest). Times are Unix times, in seconds.
class JoinTokens {
 public:
  static constexpr size_t kMost = 1000;

  // Of these tables, in any order; others are left alone. False: the record cannot be read.
  bool Restore(const Write& record);

  // ResourceExhausted: there are too many. Those that are over go.
  absl::Status Add(const v1::JoinTokenRecord& token, double now, Effects& effects);
  // NotFound.
  absl::Status Remove(const std::string& id, Effects& effects);
  std::vector<const v1::JoinTokenRecord*> All() const;  // by id

  // PermissionDenied: why the token does not enrol the node; of one that is unknown, or whose
  // secret is another, no more than that.
  absl::Status Check(const Enrolment& enrolment, double now) const;
  // Whether the same node enrolled with this token and key before: its answer may have been lost.
  bool IsRepetition(const Enrolment& enrolment) const;
  // Of one that Check allowed: one use less, unless it is the same enrolment again.
  void Count(const Enrolment& enrolment, Effects& effects);
  // The node has its certificate, or is to have none: none of its enrolments counts as a repetition
  // any more, and tokens that enrol nobody else go.
  void Forget(const std::string& node, Effects& effects);

 private:
  using Tokens = std::map<std::string, v1::JoinTokenRecord>;
  bool HasUses(const std::string& id) const;
  // With its uses. Returns the token after it.
  Tokens::iterator Erase(Tokens::iterator token, Effects& effects);

  Tokens tokens_;                            // by id
  std::map<std::string, std::string> uses_;  // by ID/NODE: the key's digest
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOIN_TOKENS_H_
