#include "controller/access/identity.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

TEST(Identity, TextsComeBack) {
  for (const char* text : {"users/alice", "nodes/n0", "nodes/rack-1.n_7", "users/_apt",
                           "users/uid-1234", "controller"}) {
    const auto identity = ParseIdentity(text, "tls");
    ASSERT_TRUE(identity.ok()) << identity.status();
    EXPECT_EQ(identity->ToString(), text);
    EXPECT_EQ(identity->by, "tls");
    EXPECT_FALSE(identity->is_unprotected());
    EXPECT_FALSE(identity->is_owner);
  }
  EXPECT_EQ(ParseIdentity("users/alice", "unix")->kind, Identity::Kind::kUser);
  EXPECT_EQ(ParseIdentity("nodes/n0", "tls")->kind, Identity::Kind::kNode);
}

TEST(Identity, OtherTextsAreRefusedByName) {
  for (const std::string& text :
       {std::string(""), std::string("alice"), std::string("users/"), std::string("users/a/b"),
        std::string("users/users/a"), std::string("nodes/-a"), std::string("nodes/a b"),
        std::string("jobs/a"), std::string("controllers"), "users/" + std::string(64, 'a'),
        std::string("users/\xff")}) {
    const auto identity = ParseIdentity(text, "tls");
    EXPECT_TRUE(absl::IsInvalidArgument(identity.status())) << text;
    EXPECT_THAT(std::string(identity.status().message()), testing::HasSubstr(text));
  }
}

TEST(Identity, NobodyIsUnprotectedOnlyWhereNothingTellsWhoSpeaks) {
  Identity nobody;
  EXPECT_TRUE(nobody.is_unprotected());
  EXPECT_EQ(nobody.ToString(), "");
  nobody.by = "tls";  // a client without a certificate, where others have one
  EXPECT_FALSE(nobody.is_unprotected());
}

}  // namespace
}  // namespace strata::controller
