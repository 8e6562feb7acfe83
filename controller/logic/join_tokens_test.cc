#include "controller/logic/join_tokens.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

v1::JoinTokenRecord TokenFor(const std::string& id, const std::string& nodes, int64_t uses,
                             int64_t until = 1000) {
  v1::JoinTokenRecord token;
  token.set_id(id);
  token.set_secret_digest("digest of " + id);
  token.set_nodes(nodes);
  token.set_uses_left(uses);
  token.mutable_expire_time()->set_seconds(until);
  return token;
}

class JoinTokensTest : public testing::Test {
 protected:
  static Enrolment By(const std::string& id, const std::string& node,
                      const std::string& key = "key") {
    return {id, "digest of " + id, node, key};
  }
  void Use(const Enrolment& enrolment) {
    ASSERT_TRUE(tokens_.Check(enrolment, 0).ok()) << tokens_.Check(enrolment, 0);
    tokens_.Count(enrolment, effects_);
  }
  std::string Refused(const Enrolment& enrolment, double now = 0) {
    const absl::Status status = tokens_.Check(enrolment, now);
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    return std::string(status.message());
  }
  JoinTokens tokens_;
  Effects effects_;
};

TEST_F(JoinTokensTest, EnrolAsOftenAsTheyMayAndNoMore) {
  ASSERT_TRUE(tokens_.Add(TokenFor("t", "n*", 2), 0, effects_).ok());
  Use(By("t", "n0"));
  Use(By("t", "n1"));
  EXPECT_THAT(Refused(By("t", "n2")), HasSubstr("the join token t is used up"));
  // Whoever lost the answer asks again, with the same key.
  effects_ = {};
  Use(By("t", "n1"));
  EXPECT_THAT(effects_.writes, IsEmpty());
  EXPECT_THAT(Refused(By("t", "n1", "another key")), HasSubstr("used up"));
}

TEST_F(JoinTokensTest, RefusalsSayWhyToWhoKnowsTheSecretOnly) {
  ASSERT_TRUE(tokens_.Add(TokenFor("t", "n[0-7]", 5), 0, effects_).ok());
  EXPECT_THAT(Refused({"t", "another secret", "n0", "key"}), HasSubstr("token is unknown"));
  EXPECT_THAT(Refused(By("u", "n0")), HasSubstr("token is unknown"));
  EXPECT_THAT(Refused(By("t", "n8")), HasSubstr("is for nodes n[0-7], not for n8"));
  EXPECT_THAT(Refused(By("t", "n0"), 1000), HasSubstr("the join token t is over"));
  EXPECT_TRUE(tokens_.Check(By("t", "n0"), 999).ok());
}

TEST_F(JoinTokensTest, EveryChangeIsDurableAndComesBack) {
  ASSERT_TRUE(tokens_.Add(TokenFor("t", "n*", 2), 0, effects_).ok());
  Use(By("t", "n0"));
  Use(By("t", "n1"));
  std::map<std::pair<std::string, std::string>, Write> store;
  for (const Write& write : effects_.writes) store[{write.table, write.key}] = write;
  JoinTokens restored;
  for (const auto& [key, write] : store) ASSERT_TRUE(restored.Restore(write));
  EXPECT_FALSE(restored.Restore({"tokens", "u", "\xff"}));
  EXPECT_FALSE(restored.Restore({"tokens", "v", store[{"tokens", "t"}].value}));
  EXPECT_TRUE(restored.Restore({"jobs", "w", "\xff"}));
  ASSERT_THAT(restored.All(), SizeIs(1));
  EXPECT_EQ(restored.All()[0]->uses_left(), 0);
  EXPECT_TRUE(restored.Check(By("t", "n1"), 0).ok());  // again
  EXPECT_FALSE(restored.Check(By("t", "n2"), 0).ok());
  effects_ = {};
  ASSERT_TRUE(tokens_.Remove("t", effects_).ok());
  ASSERT_THAT(effects_.writes, SizeIs(store.size()));  // nothing of it stays
  for (const Write& write : effects_.writes) EXPECT_TRUE(write.erase) << write.key;
  EXPECT_TRUE(absl::IsNotFound(tokens_.Remove("t", effects_)));
  EXPECT_THAT(Refused(By("t", "n0")), HasSubstr("unknown"));
}

TEST_F(JoinTokensTest, NodesThatAreThereUseUpTheirTokens) {
  ASSERT_TRUE(tokens_.Add(TokenFor("t", "n*", 2), 0, effects_).ok());
  ASSERT_TRUE(tokens_.Add(TokenFor("u", "n*", 2), 0, effects_).ok());
  Use(By("t", "n0"));
  Use(By("t", "n1"));
  Use(By("u", "n1"));
  effects_ = {};
  tokens_.Forget("n0", effects_);
  EXPECT_THAT(Refused(By("t", "n0")), HasSubstr("used up"));  // no repetition any more
  EXPECT_TRUE(tokens_.Check(By("t", "n1"), 0).ok());
  EXPECT_THAT(effects_.writes, SizeIs(1));
  tokens_.Forget("n1", effects_);
  ASSERT_THAT(tokens_.All(), SizeIs(1));
  EXPECT_EQ(tokens_.All()[0]->id(), "u");
  EXPECT_THAT(effects_.writes, SizeIs(4));  // its use of each token, and the one that is used up
}

TEST_F(JoinTokensTest, ThereAreNotTooManyAndOldOnesGo) {
  for (size_t i = 0; i < JoinTokens::kMost; ++i) {
    ASSERT_TRUE(tokens_.Add(TokenFor(absl::StrCat(i), "n*", 1), 0, effects_).ok());
  }
  const absl::Status more = tokens_.Add(TokenFor("t", "n*", 1, 5000), 999, effects_);
  EXPECT_TRUE(absl::IsResourceExhausted(more)) << more;
  effects_ = {};
  EXPECT_TRUE(tokens_.Add(TokenFor("t", "n*", 1, 5000), 1000, effects_).ok());
  EXPECT_THAT(tokens_.All(), SizeIs(1));
  EXPECT_THAT(effects_.writes, SizeIs(JoinTokens::kMost + 1));
}

}  // namespace
}  // namespace strata::controller
