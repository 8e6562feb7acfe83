#include "controller/service/access_service.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/refusal.h"
#include "controller/service/requests/audit_filter.h"
#include "controller/service/requests/pages.h"
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

absl::Status ListAuditRecords(const AuditTrail::Records& records,
                              const v1::ListAuditRecordsRequest& request,
                              v1::ListAuditRecordsResponse* response) {
  const std::string list = absl::StrCat("audit of ", request.filter());
  ASSIGN_OR_RETURN(const Page page, ReadPage(list, request.page_size(), request.page_token()));
  ASSIGN_OR_RETURN(const AuditFilter filter, ParseAuditFilter(request.filter()));
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!page.after.empty() && !absl::SimpleAtoi(page.after, &before)) {
    return InvalidField("page_token", "is none of this list — begin without one");
  }
  size_t bytes = 0;
  records.ForEachBefore(before, [&](const v1::AuditRecord& record) {
    if (!filter(record)) return true;
    if (response->records_size() == page.size || bytes > kMostPageBytes) {
      response->set_next_page_token(
          PageToken(list, absl::StrCat(response->records().rbegin()->sequence())));
      return false;
    }
    bytes += record.ByteSizeLong();
    *response->add_records() = record;
    return true;
  });
  return absl::OkStatus();
}

using RawAccessService = v1::AccessService::WithRawCallbackMethod_GetIdentity<
    v1::AccessService::WithRawCallbackMethod_EnrollNode<
        v1::AccessService::WithRawCallbackMethod_CreateJoinToken<
            v1::AccessService::WithRawCallbackMethod_ListJoinTokens<
                v1::AccessService::WithRawCallbackMethod_DeleteJoinToken<
                    v1::AccessService::WithRawCallbackMethod_ListAuditRecords<
                        v1::AccessService::Service>>>>>>;

class AccessService final : public RawAccessService {
 public:
  AccessService(const CallEnvironment& environment, Enroller enroller)
      : environment_(environment), enroller_(std::move(enroller)) {}

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

  grpc::ServerUnaryReactor* EnrollNode(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    using Call = UnaryCall<v1::EnrollNodeRequest, v1::EnrollNodeResponse>;
    return Call::Start(
        environment_, {"AccessService/EnrollNode", false}, context, request, response, nullptr,
        [this](Core& core, Effects& effects, const Caller& caller,
               const v1::EnrollNodeRequest& asked, v1::EnrollNodeResponse* enrolled) {
          return enroller_.Enroll(core, effects, caller, common::WallSeconds(), asked, enrolled);
        });
  }

  grpc::ServerUnaryReactor* CreateJoinToken(CallbackServerContext* context,
                                            const ByteBuffer* request,
                                            ByteBuffer* response) override {
    using Call = UnaryCall<v1::CreateJoinTokenRequest, v1::JoinToken>;
    return Call::Start(
        environment_, {"AccessService/CreateJoinToken", false}, context, request, response, nullptr,
        [this](Core& core, Effects& effects, const Caller& caller,
               const v1::CreateJoinTokenRequest& asked, v1::JoinToken* token) {
          return enroller_.CreateToken(core, effects, caller, common::WallSeconds(), asked, token);
        });
  }

  grpc::ServerUnaryReactor* ListJoinTokens(CallbackServerContext* context,
                                           const ByteBuffer* request,
                                           ByteBuffer* response) override {
    using Call = UnaryCall<v1::ListJoinTokensRequest, v1::ListJoinTokensResponse>;
    return Call::Start(environment_, {"AccessService/ListJoinTokens"}, context, request, response,
                       nullptr,
                       [this](Core& core, Effects&, const v1::ListJoinTokensRequest& asked,
                              v1::ListJoinTokensResponse* listed) {
                         return enroller_.ListTokens(core, asked, listed);
                       });
  }

  grpc::ServerUnaryReactor* DeleteJoinToken(CallbackServerContext* context,
                                            const ByteBuffer* request,
                                            ByteBuffer* response) override {
    using Call = UnaryCall<v1::DeleteJoinTokenRequest, v1::DeleteJoinTokenResponse>;
    return Call::Start(
        environment_, {"AccessService/DeleteJoinToken", false}, context, request, response,
        [](v1::DeleteJoinTokenRequest& asked) { return NeedName(asked.name(), "tokens/ID"); },
        [this](Core& core, Effects& effects, const v1::DeleteJoinTokenRequest& asked,
               v1::DeleteJoinTokenResponse*) {
          return enroller_.DeleteToken(core, effects, asked);
        });
  }

  grpc::ServerUnaryReactor* ListAuditRecords(CallbackServerContext* context,
                                             const ByteBuffer* request,
                                             ByteBuffer* response) override {
    using Call = UnaryCall<v1::ListAuditRecordsRequest, v1::ListAuditRecordsResponse>;
    return Call::StartRead(
        environment_, "AccessService/ListAuditRecords", context, request, response, nullptr,
        [](const Core& core, const Caller&,
           const v1::ListAuditRecordsRequest& asked) -> Call::Later {
          return [records = core.audit(), &asked](v1::ListAuditRecordsResponse* listed) {
            return controller::ListAuditRecords(records, asked, listed);
          };
        });
  }

 private:
  const CallEnvironment environment_;
  const Enroller enroller_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAccessService(const CallEnvironment& environment,
                                                 Enroller enroller) {
  return std::make_unique<AccessService>(environment, std::move(enroller));
}

}  // namespace strata::controller
