#include "controller/service/testing/reflected_methods.h"

#include <google/protobuf/descriptor.pb.h>

#include <chrono>
#include <deque>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "grpcpp/generic/generic_stub.h"

namespace strata::controller {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;
using google::protobuf::MessageFactory;

constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr double kPatienceSeconds = 60;

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}
std::string Text(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!bytes.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// The protocol's messages come with gRPC's reflection library, which has no installed header.
absl::StatusOr<std::unique_ptr<Message>> NewMessage(const char* name) {
  const auto* type = DescriptorPool::generated_pool()->FindMessageTypeByName(
      absl::StrCat("grpc.reflection.v1alpha.", name));
  if (type == nullptr) return absl::NotFoundError(absl::StrCat(name, " is not linked in"));
  return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// One question; `field` of the request is set to `value`.
absl::StatusOr<std::unique_ptr<Message>> Ask(const std::shared_ptr<grpc::Channel>& channel,
                                             const char* field, const std::string& value) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Message> request, NewMessage("ServerReflectionRequest"));
  request->GetReflection()->SetString(request.get(),
                                      request->GetDescriptor()->FindFieldByName(field), value);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::time_point(std::chrono::milliseconds(
      static_cast<int64_t>(1e3 * (common::WallSeconds() + kPatienceSeconds)))));
  const CallOutcome outcome =
      CallMethod(channel, kReflection, &context, {request->SerializeAsString()});
  if (!outcome.status.ok() || outcome.responses.size() != 1) {
    return absl::InternalError(absl::StrCat("reflection: ", outcome.status.error_message()));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Message> response, NewMessage("ServerReflectionResponse"));
  if (!response->ParseFromString(outcome.responses[0])) {
    return absl::InternalError("reflection: no response of that type");
  }
  return response;
}

const Message& Part(const Message& message, const char* field) {
  return message.GetReflection()->GetMessage(message,
                                             message.GetDescriptor()->FindFieldByName(field));
}

}  // namespace

CallOutcome CallMethod(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                       grpc::ClientContext* context, const std::vector<std::string>& requests,
                       size_t most) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(context, path, &queue);
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  CallOutcome outcome;
  call->StartCall(nullptr);
  bool sent = await();
  for (const std::string& request : requests) {
    if (!sent) break;
    call->Write(Bytes(request), nullptr);
    sent = await();
  }
  if (sent) {
    call->WritesDone(nullptr);
    await();
  }
  for (;;) {
    grpc::ByteBuffer response;
    call->Read(&response, nullptr);
    if (!await()) break;
    outcome.responses.push_back(Text(response));
    if (outcome.responses.size() == most) context->TryCancel();
  }
  call->Finish(&outcome.status, nullptr);
  await();
  return outcome;
}

absl::StatusOr<std::unique_ptr<ReflectedMethods>> ReflectedMethods::Read(
    const std::shared_ptr<grpc::Channel>& channel) {
  std::unique_ptr<ReflectedMethods> read(new ReflectedMethods);
  ASSIGN_OR_RETURN(const std::unique_ptr<Message> listed, Ask(channel, "list_services", "*"));
  const Message& list = Part(*listed, "list_services_response");
  const auto* service = list.GetDescriptor()->FindFieldByName("service");
  std::deque<std::pair<const char*, std::string>> questions;
  for (int i = 0; i < list.GetReflection()->FieldSize(list, service); ++i) {
    const Message& entry = list.GetReflection()->GetRepeatedMessage(list, service, i);
    read->services_.push_back(
        entry.GetReflection()->GetString(entry, entry.GetDescriptor()->FindFieldByName("name")));
    if (absl::StartsWith(read->services_.back(), "grpc.")) continue;
    questions.emplace_back("file_containing_symbol", read->services_.back());
  }
  std::set<std::string> known;
  for (; !questions.empty(); questions.pop_front()) {
    const auto& [field, value] = questions.front();
    if (known.count(value) > 0) continue;
    ASSIGN_OR_RETURN(const std::unique_ptr<Message> described, Ask(channel, field, value));
    const Message& files = Part(*described, "file_descriptor_response");
    const auto* bytes = files.GetDescriptor()->FindFieldByName("file_descriptor_proto");
    for (int i = 0; i < files.GetReflection()->FieldSize(files, bytes); ++i) {
      FileDescriptorProto file;
      if (!file.ParseFromString(files.GetReflection()->GetRepeatedString(files, bytes, i))) {
        return absl::InternalError(absl::StrCat("reflection: no file for ", value));
      }
      for (const std::string& name : file.dependency()) {
        questions.emplace_back("file_by_filename", name);
      }
      if (known.insert(file.name()).second) read->database_.Add(file);
    }
  }
  for (const std::string& name : read->services_) {
    if (absl::StartsWith(name, "grpc.")) continue;
    const auto* found = read->pool_.FindServiceByName(name);
    if (found == nullptr) return absl::InternalError(absl::StrCat("not described: ", name));
    for (int i = 0; i < found->method_count(); ++i) read->methods_.push_back(found->method(i));
  }
  return read;
}

std::unique_ptr<Message> ReflectedMethods::Request(const Method& method) {
  return std::unique_ptr<Message>(factory_.GetPrototype(method.input_type())->New());
}

std::string ReflectedMethods::PathOf(const Method& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

bool ReflectedMethods::IsUnary(const Method& method) {
  return !method.client_streaming() && !method.server_streaming();
}

}  // namespace strata::controller
