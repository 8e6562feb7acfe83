// One session with a controller in which a test says what it likes, as whomever it likes: an agent
// that is none.
//
//   raw-session HOST:PORT [AUTHORITY.pem [CERTIFICATE.pem KEY.pem]]
//
// Each line of its input is an AgentMessage: JSON, or "hex" and its bytes, for what this build does
// not know. What it hears it prints, one line of JSON for each message, and at last the session's
// status: {"status": CODE, "message": TEXT}. The end of the input ends its half of the session.
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/strata/v1/agent.grpc.pb.h"
#include "security/credentials.h"

namespace strata {
namespace {

constexpr char kHex[] = "hex ";

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(int argc, char** argv) {
  if (argc == 2) return grpc::InsecureChannelCredentials();
  security::TlsFiles files;
  files.authority = argv[2];
  if (argc == 5) {
    files.certificate = argv[3];
    files.key = argv[4];
  }
  return security::MakeChannelCredentials(files, common::WallSeconds());
}

absl::StatusOr<v1::AgentMessage> MessageOf(const std::string& line) {
  v1::AgentMessage message;
  if (absl::StartsWith(line, kHex)) {
    if (message.ParseFromString(absl::HexStringToBytes(line.substr(sizeof(kHex) - 1)))) {
      return message;
    }
    return absl::InvalidArgumentError("no message of protocol buffers: " + line);
  }
  const auto read = google::protobuf::util::JsonStringToMessage(line, &message);
  if (read.ok()) return message;
  return absl::InvalidArgumentError(read.ToString() + ": " + line);
}

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Says what the input holds; what is no message ends the program.
void SayAll(grpc::ClientReaderWriter<v1::AgentMessage, v1::ControllerMessage>& stream) {
  for (std::string line; std::getline(std::cin, line);) {
    const absl::StatusOr<v1::AgentMessage> message = MessageOf(line);
    if (!message.ok()) {
      std::fprintf(stderr, "%s\n", message.status().ToString().c_str());
      std::_Exit(1);
    }
    if (!stream.Write(*message)) return;
  }
  stream.WritesDone();
}

absl::Status Talk(int argc, char** argv) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                   CredentialsOf(argc, argv));
  const auto stub = v1::AgentService::NewStub(grpc::CreateChannel(argv[1], credentials));
  grpc::ClientContext context;
  const auto stream = stub->Session(&context);
  std::thread saying([&stream] { SayAll(*stream); });
  v1::ControllerMessage heard;
  while (stream->Read(&heard)) {
    std::string line;
    const auto written = google::protobuf::util::MessageToJsonString(heard, &line);
    Print(written.ok() ? line : written.ToString());
  }
  const grpc::Status end = stream->Finish();
  nlohmann::json told;
  told["status"] = static_cast<int>(end.error_code());
  told["message"] = end.error_message();
  Print(told.dump());
  std::_Exit(0);  // its other thread may wait for more input for ever
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3 && argc != 5) {
    std::fputs("raw-session HOST:PORT [AUTHORITY.pem [CERTIFICATE.pem KEY.pem]]\n", stderr);
    return 2;
  }
  std::fprintf(stderr, "%s\n", strata::Talk(argc, argv).ToString().c_str());
  return 1;
}
