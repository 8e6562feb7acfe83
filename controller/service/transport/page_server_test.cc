// Pages over plain connections; with TLS see daemon_test.
#include "controller/service/transport/page_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// That tests move on while the server reads it.
class SteppedClock final : public common::Clock {
 public:
  double Now() const override { return now_; }
  void Advance(double seconds) { now_ = now_ + seconds; }

 private:
  std::atomic<double> now_{0};
};

class PageServerTest : public testing::Test {
 protected:
  PageServerTest() {
    auto listening = PageServer::Listen("127.0.0.1:0", nullptr, &clock_);
    EXPECT_TRUE(listening.ok()) << listening.status();
    server_ = *std::move(listening);
    server_->Begin([this](const PageRequest& request) -> PageAnswer {
      peer_ = request.peer;
      if (request.path == "/big") return {200, std::string(kBig, 'b')};
      if (request.path != "/page") return {404, "no such page\n"};
      return {200, "hello\n"};
    });
  }
  int Connect() const {
    const std::string address = server_->address();
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(file, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return file;
  }
  // All that comes until the other side ends; closes the connection.
  static std::string ReadAll(int file) {
    std::string text;
    char piece[4096];
    ssize_t count = 0;
    while ((count = read(file, piece, sizeof(piece))) > 0) {
      text.append(piece, static_cast<size_t>(count));
    }
    close(file);
    return text;
  }
  static void Send(int file, const std::string& text) {
    EXPECT_EQ(send(file, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  std::string Ask(const std::string& request) const {
    const int file = Connect();
    Send(file, request);
    return ReadAll(file);
  }

  static constexpr size_t kBig = size_t{8} << 20;
  SteppedClock clock_;
  std::string peer_;
  std::unique_ptr<PageServer> server_;
};

TEST_F(PageServerTest, ThePageIsServedAndItsReaderIsKnownByAddress) {
  const std::string answer = Ask("GET /page?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n"));
  EXPECT_THAT(peer_, testing::MatchesRegex("ipv4:127\\.0\\.0\\.1:[1-9][0-9]*"));
}

TEST_F(PageServerTest, WhatIsNoRequestForAPageIsToldSo) {
  EXPECT_THAT(Ask("GET /other HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 Not Found"));
  EXPECT_THAT(Ask("POST /page HTTP/1.1\r\n\r\n"), HasSubstr("\r\nAllow: GET\r\n"));
  EXPECT_THAT(Ask("hello\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("GET /page SMTP\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  const std::string wide(PageServer::kMostRequestBytes + 1, 'x');
  EXPECT_THAT(Ask("GET /page HTTP/1.1\r\nA: " + wide), StartsWith("HTTP/1.1 431 "));
}

TEST_F(PageServerTest, ARequestInPiecesAndALargeAnswerArriveWhole) {
  const int file = Connect();
  for (const char* piece : {"GET /b", "ig HTTP/1.1\r", "\n\r", "\n"}) Send(file, piece);
  EXPECT_EQ(ReadAll(file).size(), Ask("GET /big HTTP/1.1\r\n\r\n").size());
  EXPECT_GT(Ask("GET /big HTTP/1.1\r\n\r\n").size(), kBig);
}

TEST_F(PageServerTest, OfTooManyConnectionsTheOldestAreDropped) {
  std::vector<int> silent;
  for (size_t i = 0; i < PageServer::kMostConnections + 10; ++i) {
    silent.push_back(Connect());
    Send(silent.back(), "GET /pa");
  }
  EXPECT_THAT(Ask("GET /page HTTP/1.1\r\n\r\n"), HasSubstr("hello"));
  for (size_t i = 0; i < 11; ++i) EXPECT_EQ(ReadAll(silent[i]), "") << i;  // or this waits
  for (size_t i = 11; i < silent.size(); ++i) {
    Send(silent[i], "ge HTTP/1.1\r\n\r\n");
    EXPECT_THAT(ReadAll(silent[i]), HasSubstr("hello")) << i;
  }
}

TEST_F(PageServerTest, ARequestThatDoesNotComeToItsEndIsGivenUp) {
  const int silent = Connect();
  Send(silent, "GET /pa");
  EXPECT_THAT(Ask("GET /page HTTP/1.1\r\n\r\n"), HasSubstr("hello"));  // it was taken by then
  clock_.Advance(PageServer::kRequestSeconds + 1);
  EXPECT_THAT(Ask("GET /page HTTP/1.1\r\n\r\n"), HasSubstr("hello"));
  EXPECT_EQ(ReadAll(silent), "");
}

TEST_F(PageServerTest, AReaderThatDoesNotTakeItsAnswerIsGivenUp) {
  const int slow = Connect();
  Send(slow, "GET /big HTTP/1.1\r\n\r\n");
  char first = 0;
  ASSERT_EQ(read(slow, &first, 1), 1);  // it is under way
  clock_.Advance(PageServer::kAnswerSeconds + 1);
  EXPECT_THAT(Ask("GET /page HTTP/1.1\r\n\r\n"), HasSubstr("hello"));
  EXPECT_LT(ReadAll(slow).size(), kBig);
}

TEST_F(PageServerTest, EndsWhileConnectionsAreOpen) {
  const int silent = Connect();
  EXPECT_THAT(Ask("GET /page HTTP/1.1\r\n\r\n"), HasSubstr("hello"));
  server_ = nullptr;
  EXPECT_EQ(ReadAll(silent), "");
}

TEST_F(PageServerTest, ATakenPortIsNamed) {
  const auto second = PageServer::Listen(server_->address(), nullptr, &clock_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server_->address() + " is in use"));
}

}  // namespace
}  // namespace strata::controller
