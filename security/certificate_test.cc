#include "security/certificate.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "security/authority.h"
#include "security/certificate_testing.h"
#include "security/openssl.h"

namespace strata::security {
namespace {

using testing::HasSubstr;

constexpr double kDay = 86400;

class CertificateTest : public testing::Test {
 protected:
  static std::unique_ptr<Authority> MakeAuthority(const std::string& cluster) {
    const auto root = Authority::MakeRoot(cluster, kNow);
    EXPECT_TRUE(root.ok()) << root.status();
    auto authority = Authority::Open(*root);
    EXPECT_TRUE(authority.ok()) << authority.status();
    return *std::move(authority);
  }
  std::string Refusal(absl::string_view chain, absl::string_view roots, Side side = Side::kClient,
                      double now = kNow) {
    const auto view = VerifyChain(chain, roots, side, now);
    EXPECT_TRUE(absl::IsUnauthenticated(view.status())) << view.status();
    return std::string(view.status().message());
  }
  const std::unique_ptr<Authority> authority_ = MakeAuthority("prod");
};

TEST_F(CertificateTest, WhatTheAuthorityIssuesIsBelieved) {
  const auto node = authority_->Issue("node/n0", kNow, kDay);
  ASSERT_TRUE(node.ok()) << node.status();
  const auto view = VerifyChain(node->certificate, authority_->root(), Side::kClient, kNow);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->id, (SpiffeId{"prod", "node/n0"}));
  EXPECT_EQ(view->end, kNow + kDay);
  EXPECT_LT(view->begin, kNow);
  EXPECT_EQ(*ReadCertificate(node->certificate), *view);
  EXPECT_TRUE(CheckKeyMatches(node->certificate, node->private_key).ok());
  const auto controller = authority_->Issue("controller", kNow, kDay);
  for (const Side side : {Side::kClient, Side::kServer}) {
    EXPECT_TRUE(VerifyChain(controller->certificate, authority_->root(), side, kNow).ok());
  }
}

TEST_F(CertificateTest, OthersAreRefusedWithTheReason) {
  const std::string alice = authority_->Issue("user/alice", kNow, kDay)->certificate;
  EXPECT_THAT(Refusal(alice, authority_->root(), Side::kClient, kNow + kDay + 1),
              HasSubstr("the certificate of spiffe://prod/user/alice expired at "
                        "2027-01-16T08:00:00Z, it is 2027-01-16T08:00:01Z"));
  EXPECT_THAT(Refusal(alice, authority_->root(), Side::kClient, kNow - kDay),
              HasSubstr("is a clock wrong?"));
  EXPECT_THAT(Refusal(alice, MakeAuthority("prod")->root()),
              HasSubstr("spiffe://prod/user/alice is not from this cluster's authority"));
  EXPECT_THAT(Refusal(alice, ""), HasSubstr("not from this cluster's authority"));
  EXPECT_THAT(Refusal(alice, authority_->root(), Side::kServer), HasSubstr("not accepted"));
  EXPECT_THAT(Refusal("", authority_->root()), HasSubstr("no certificate"));
  EXPECT_THAT(
      Refusal("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", authority_->root()),
      HasSubstr("no certificate"));
}

TEST_F(CertificateTest, AnAuthorityBetweenLeafAndRootMustBeShownAndBeGood) {
  const KeyPair root = *Authority::MakeRoot("prod", kNow);
  const KeyPair between = MakeBetween(root);
  const std::string alice = Custom(between, "URI:spiffe://prod/user/alice", *MakePrivateKey());
  double valid_until = 0;
  const auto view =
      VerifyChain(alice + between.certificate, root.certificate, Side::kClient, kNow, &valid_until);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->id.path, "user/alice");
  EXPECT_EQ(valid_until, kNow + kDay);
  EXPECT_THAT(Refusal(alice, root.certificate), HasSubstr("not from this cluster's authority"));

  const KeyPair brief = MakeBetween(root, kNow + kDay / 2);
  const std::string bob = Custom(brief, "URI:spiffe://prod/user/bob", *MakePrivateKey());
  ASSERT_TRUE(
      VerifyChain(bob + brief.certificate, root.certificate, Side::kClient, kNow, &valid_until)
          .ok());
  EXPECT_EQ(valid_until, kNow + kDay / 2);
  EXPECT_THAT(
      Refusal(bob + brief.certificate, root.certificate, Side::kClient, kNow + kDay / 2 + 1),
      HasSubstr("expired"));
}

TEST_F(CertificateTest, ARootThatIsOnlyShownIsNoRoot) {
  const KeyPair own = *Authority::MakeRoot("prod", kNow);
  const KeyPair between = MakeBetween(own);
  const std::string chain = Custom(between, "URI:spiffe://prod/controller", *MakePrivateKey()) +
                            between.certificate + own.certificate;
  EXPECT_THAT(Refusal(chain, authority_->root()), HasSubstr("not from this cluster's authority"));
  EXPECT_THAT(Refusal(chain + authority_->root(), authority_->root()),
              HasSubstr("not from this cluster's authority"));
}

TEST_F(CertificateTest, TheLeafAloneNames) {
  const KeyPair root = *Authority::MakeRoot("prod", kNow);
  const KeyPair between = MakeBetween(root);  // names a node itself
  EXPECT_THAT(
      Refusal(Custom(between, "", *MakePrivateKey()) + between.certificate, root.certificate),
      HasSubstr("CN=custom names nobody"));
}

TEST_F(CertificateTest, ExactlyOneNameIsNeeded) {
  const auto root = Authority::MakeRoot("prod", kNow);
  const std::string key = *MakePrivateKey();
  EXPECT_THAT(Refusal(Custom(*root, "", key), root->certificate),
              HasSubstr("the certificate of CN=custom names nobody"));
  EXPECT_THAT(Refusal(Custom(*root, "DNS:n0", key), root->certificate), HasSubstr("names nobody"));
  EXPECT_THAT(Refusal(Custom(*root, "URI:https://a/b", key), root->certificate),
              HasSubstr("https://a/b is no name of the form spiffe://"));
  EXPECT_THAT(Refusal(Custom(*root, "URI:spiffe://prod/user/a,URI:spiffe://prod/user/b", key),
                      root->certificate),
              HasSubstr("several URIs"));
  EXPECT_TRUE(VerifyChain(Custom(*root, "URI:spiffe://prod/user/a,DNS:x", key), root->certificate,
                          Side::kClient, kNow)
                  .ok());
}

TEST_F(CertificateTest, ALeafIsNoAuthority) {
  const auto node = authority_->Issue("node/n0", kNow, kDay);
  const std::string forged =
      Custom(*node, "URI:spiffe://prod/controller", *MakePrivateKey()) + node->certificate;
  EXPECT_THAT(Refusal(forged, authority_->root()), HasSubstr("is not accepted"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Authority::Open(*node).status()));
  // Nor is its own key a pin.
  EXPECT_FALSE(VerifyPinnedChain(node->certificate, *KeyDigest(node->certificate), kNow).ok());
}

TEST_F(CertificateTest, AChainIsBelievedByItsAuthoritysKey) {
  const std::string chain = authority_->Issue("controller", kNow, kDay)->certificate;
  const auto pinned = VerifyPinnedChain(chain, authority_->key_digest(), kNow);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->leaf.id.path, "controller");
  EXPECT_EQ(pinned->root, authority_->root());
  const auto other = VerifyPinnedChain(chain, MakeAuthority("prod")->key_digest(), kNow);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("is not the one of sha256:"));
  // The true root beside a leaf of another one helps nobody.
  const std::string impostor = MakeAuthority("prod")->Issue("controller", kNow, kDay)->certificate;
  const std::string mixed = impostor.substr(0, impostor.find("-----END")) +
                            "-----END CERTIFICATE-----\n" + authority_->root();
  EXPECT_THAT(
      std::string(VerifyPinnedChain(mixed, authority_->key_digest(), kNow).status().message()),
      HasSubstr("not from this cluster's authority"));
  EXPECT_FALSE(VerifyPinnedChain("", authority_->key_digest(), kNow).ok());
}

TEST_F(CertificateTest, SigningRequestsProveTheirKeys) {
  const std::string key = *MakePrivateKey();
  const std::string request = *MakeSigningRequest(key);
  const auto signed_one = authority_->Sign(request, "node/n7", kNow, kDay);
  ASSERT_TRUE(signed_one.ok()) << signed_one.status();
  EXPECT_EQ(*RequestKeyDigest(request), *KeyDigest(*signed_one));
  EXPECT_EQ(*RequestKeyDigest(*MakeSigningRequest(key)), *RequestKeyDigest(request));
  EXPECT_TRUE(absl::IsInvalidArgument(RequestKeyDigest("").status()));
  EXPECT_TRUE(CheckKeyMatches(*signed_one, key).ok());
  EXPECT_EQ(ReadCertificate(*signed_one)->id.ToString(), "spiffe://prod/node/n7");
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckKeyMatches(*signed_one, *MakePrivateKey())));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckKeyMatches(*signed_one, "")));
  EXPECT_TRUE(absl::IsInvalidArgument(authority_->Sign("", "node/n7", kNow, kDay).status()));
  std::string tampered = request;
  tampered[tampered.size() / 2] ^= 1;
  EXPECT_TRUE(absl::IsInvalidArgument(authority_->Sign(tampered, "node/n7", kNow, 1).status()));
  for (const char* path : {"node/n 7", "node//", "../x", "user/\xff"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(authority_->Sign(request, path, kNow, kDay).status()))
        << path;
  }
  // No longer than the root.
  EXPECT_EQ(ReadCertificate(*authority_->Sign(request, "node/n7", kNow, 1e10))->end,
            ReadCertificate(authority_->root())->end);
}

TEST_F(CertificateTest, WeakKeysAreRefused) {
  const Key weak(EVP_RSA_gen(1024));
  const Bio bio = Writing();
  PEM_write_bio_PKCS8PrivateKey(bio.get(), weak.get(), nullptr, nullptr, 0, nullptr, nullptr);
  const auto refused =
      authority_->Sign(*MakeSigningRequest(TextOf(bio.get())), "node/n7", kNow, kDay);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("too weak"));
}

TEST(AuthorityTest, ClustersHaveNamesAsInUris) {
  for (const char* bad : {"", "A", "a/b", "a b", ".."}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Authority::MakeRoot(bad, kNow).status())) << bad;
  }
}

TEST(SpiffeIdTest, TextsComeBackOrAreRefused) {
  for (const char* text : {"spiffe://prod", "spiffe://prod/controller", "spiffe://a.b-c_1/node/N.0",
                           "spiffe://prod/user/alice"}) {
    const auto id = ParseSpiffeId(text);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(id->ToString(), text);
  }
  for (const char* text :
       {"", "prod", "spiffe://", "spiffe:///a", "spiffe://Prod/a", "spiffe://prod/",
        "spiffe://prod/a//b", "spiffe://prod/../a", "spiffe://prod/a b", "https://prod/a",
        "spiffe://prod:80/a", "spiffe://prod/a?b", "spiffe://u@prod/a"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseSpiffeId(text).status())) << text;
  }
}

TEST(Sha256Test, IsTheStandards) {
  EXPECT_EQ(Sha256("").size(), 32u);
  EXPECT_EQ(Sha256("abc").substr(0, 4), std::string("\xba\x78\x16\xbf"));
  EXPECT_NE(*RandomBytes(16), *RandomBytes(16));
}

}  // namespace
}  // namespace strata::security
