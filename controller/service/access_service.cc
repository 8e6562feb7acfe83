#include "controller/service/access_service.h"

#include "proto/strata/v1/access.grpc.pb.h"

namespace strata::controller {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;

v1::Identity ShowIdentity(const Caller& caller) {
  v1::Identity shown;
  shown.set_identity(caller.identity.ToString());
  shown.set_by(caller.identity.by);
  for (const std::string& group : caller.identity.groups) shown.add_groups(group);
  for (const HeldRole& held : caller.rights.roles()) {
    v1::Identity::Role& role = *shown.add_roles();
    role.set_role(NameOf(held.role));
    role.set_project(held.project);
  }
  return shown;
}

using RawAccessService =
    v1::AccessService::WithRawCallbackMethod_GetIdentity<v1::AccessService::Service>;

class AccessService final : public RawAccessService {
 public:
  explicit AccessService(const CallEnvironment& environment) : environment_(environment) {}

  grpc::ServerUnaryReactor* GetIdentity(CallbackServerContext* context, const ByteBuffer* request,
                                        ByteBuffer* response) override {
    using Call = UnaryCall<v1::GetIdentityRequest, v1::Identity>;
    return Call::Start(environment_, {"AccessService/GetIdentity"}, context, request, response,
                       nullptr,
                       [](Core&, Effects&, const Caller& caller, const v1::GetIdentityRequest&,
                          v1::Identity* identity) {
                         *identity = ShowIdentity(caller);
                         return absl::OkStatus();
                       });
  }

 private:
  const CallEnvironment environment_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAccessService(const CallEnvironment& environment) {
  return std::make_unique<AccessService>(environment);
}

}  // namespace strata::controller
