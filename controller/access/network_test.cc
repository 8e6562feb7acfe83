#include "controller/access/network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace strata::controller {
namespace {

std::string OfAddress(const char* text) {
  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1) {
    address.ss_family = AF_INET6;
  }
  return NetworkOf(address);
}

TEST(Network, IsTheHostOfIpv4AndHalfOfAnIpv6Address) {
  EXPECT_EQ(OfAddress("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(OfAddress("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(OfAddress("::ffff:192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(OfAddress("/run/socket"), "");
}

TEST(Network, OfAPeerIsThatOfItsAddress) {
  EXPECT_EQ(NetworkOfPeer("ipv4:192.0.2.1:41234"), "192.0.2.1");
  EXPECT_EQ(NetworkOfPeer("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:41234"), "2001:db8:1:2::/64");
  EXPECT_EQ(NetworkOfPeer("ipv6:[2001:db8:1:2:ffff::1]:80"), "2001:db8:1:2::/64");
  EXPECT_EQ(NetworkOfPeer("ipv6:%5Bfe80::1%25eth0%5D:80"), "fe80::/64");
  EXPECT_EQ(NetworkOfPeer("unix:/run/strata.sock"), "unix:/run/strata.sock");
  EXPECT_EQ(NetworkOfPeer(""), "");
}

}  // namespace
}  // namespace strata::controller
