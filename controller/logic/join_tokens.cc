#include "controller/logic/join_tokens.h"

#include <fnmatch.h>

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/logic/job_entry.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

constexpr char kTable[] = "tokens";
constexpr char kUses[] = "token_uses";

absl::Status TokenRefused(const std::string& why) {
  return Refusal(absl::StatusCode::kPermissionDenied, "TOKEN_REFUSED",
                 absl::StrCat(why, " — strata token create makes another one"));
}

std::string UseKey(const Enrolment& enrolment) {
  return absl::StrCat(enrolment.id, "/", enrolment.node);
}

}  // namespace

bool JoinTokens::Restore(const Write& record) {
  if (record.table == kUses) uses_[record.key] = record.value;
  if (record.table != kTable) return true;
  v1::JoinTokenRecord token;
  if (!token.ParseFromString(record.value) || token.id() != record.key) return false;
  tokens_[record.key] = std::move(token);
  return true;
}

absl::Status JoinTokens::Add(const v1::JoinTokenRecord& token, double now, Effects& effects) {
  for (auto next = tokens_.begin(); next != tokens_.end();) {
    const bool over = SecondsOf(next->second.expire_time()) <= now;
    next = over ? Erase(next, effects) : std::next(next);
  }
  if (tokens_.size() >= kMost) {
    return Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_TOKENS",
                   absl::StrCat("there are ", kMost, " join tokens already: delete some"));
  }
  tokens_[token.id()] = token;
  effects.writes.push_back({kTable, token.id(), token.SerializeAsString()});
  return absl::OkStatus();
}

absl::Status JoinTokens::Remove(const std::string& id, Effects& effects) {
  const auto found = tokens_.find(id);
  if (found == tokens_.end()) {
    return Refusal(absl::StatusCode::kNotFound, "TOKEN_NOT_FOUND",
                   absl::StrCat("there is no join token ", id));
  }
  Erase(found, effects);
  return absl::OkStatus();
}

JoinTokens::Tokens::iterator JoinTokens::Erase(Tokens::iterator token, Effects& effects) {
  const std::string prefix = absl::StrCat(token->first, "/");
  auto use = uses_.lower_bound(prefix);
  while (use != uses_.end() && absl::StartsWith(use->first, prefix)) {
    effects.writes.push_back({kUses, use->first, "", true});
    use = uses_.erase(use);
  }
  effects.writes.push_back({kTable, token->first, "", true});
  return tokens_.erase(token);
}

bool JoinTokens::HasUses(const std::string& id) const {
  const std::string prefix = absl::StrCat(id, "/");
  const auto use = uses_.lower_bound(prefix);
  return use != uses_.end() && absl::StartsWith(use->first, prefix);
}

void JoinTokens::Forget(const std::string& node, Effects& effects) {
  if (uses_.empty()) return;
  for (auto next = tokens_.begin(); next != tokens_.end();) {
    const std::string use = absl::StrCat(next->first, "/", node);
    const bool used = uses_.erase(use) > 0;
    if (used) effects.writes.push_back({kUses, use, "", true});
    const bool done = used && next->second.uses_left() < 1 && !HasUses(next->first);
    next = done ? Erase(next, effects) : std::next(next);
  }
}

bool JoinTokens::IsRepetition(const Enrolment& enrolment) const {
  const auto before = uses_.find(UseKey(enrolment));
  return before != uses_.end() && before->second == enrolment.key_digest;
}

std::vector<const v1::JoinTokenRecord*> JoinTokens::All() const {
  std::vector<const v1::JoinTokenRecord*> all;
  all.reserve(tokens_.size());
  for (const auto& [id, token] : tokens_) all.push_back(&token);
  return all;
}

absl::Status JoinTokens::Check(const Enrolment& enrolment, double now) const {
  const auto found = tokens_.find(enrolment.id);
  if (found == tokens_.end() || found->second.secret_digest() != enrolment.secret_digest) {
    return TokenRefused("the join token is unknown");
  }
  const v1::JoinTokenRecord& token = found->second;
  if (SecondsOf(token.expire_time()) <= now) {
    return TokenRefused(absl::StrCat("the join token ", token.id(), " is over"));
  }
  if (fnmatch(token.nodes().c_str(), enrolment.node.c_str(), FNM_NOESCAPE) != 0) {
    return TokenRefused(absl::StrCat("the join token ", token.id(), " is for nodes ", token.nodes(),
                                     ", not for ", enrolment.node));
  }
  if (token.uses_left() < 1 && !IsRepetition(enrolment)) {
    return TokenRefused(absl::StrCat("the join token ", token.id(), " is used up"));
  }
  return absl::OkStatus();
}

void JoinTokens::Count(const Enrolment& enrolment, Effects& effects) {
  v1::JoinTokenRecord& token = tokens_.at(enrolment.id);
  if (IsRepetition(enrolment)) return;
  token.set_uses_left(token.uses_left() - 1);
  uses_[UseKey(enrolment)] = enrolment.key_digest;
  effects.writes.push_back({kUses, UseKey(enrolment), enrolment.key_digest});
  effects.writes.push_back({kTable, token.id(), token.SerializeAsString()});
}

}  // namespace strata::controller
