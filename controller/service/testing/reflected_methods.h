// For tests: every method that a server offers, as a client without our .proto files finds them
// (what grpcurl does): through the reflection service.
#ifndef STRATA_CONTROLLER_SERVICE_TESTING_REFLECTED_METHODS_H_
#define STRATA_CONTROLLER_SERVICE_TESTING_REFLECTED_METHODS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor_database.h>
#include <google/protobuf/dynamic_message.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace strata::controller {

struct CallOutcome {
  grpc::Status status;
  std::vector<std::string> responses;  // serialised
};

// One call of any method: all of `requests`, then their end, then all responses. A stream that goes
// on for ever is cancelled after `most` responses.
CallOutcome CallMethod(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                       grpc::ClientContext* context, const std::vector<std::string>& requests,
                       size_t most = SIZE_MAX);

class ReflectedMethods {
 public:
  using Method = google::protobuf::MethodDescriptor;

  // Asks for all services and the files that describe them, but those of gRPC itself.
  static absl::StatusOr<std::unique_ptr<ReflectedMethods>> Read(
      const std::shared_ptr<grpc::Channel>& channel);

  const std::vector<std::string>& services() const { return services_; }  // gRPC's own as well
  const std::vector<const Method*>& methods() const { return methods_; }  // not gRPC's own
  // An empty request of the method.
  std::unique_ptr<google::protobuf::Message> Request(const Method& method);

  static std::string PathOf(const Method& method);  // "/strata.v1.JobService/GetJob"
  static bool IsUnary(const Method& method);

 private:
  ReflectedMethods() : pool_(&database_) {}

  std::vector<std::string> services_;
  std::vector<const Method*> methods_;
  google::protobuf::SimpleDescriptorDatabase database_;
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TESTING_REFLECTED_METHODS_H_
