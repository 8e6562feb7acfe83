#include "security/munge.h"

#include <munge.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::security {
namespace {

// What credentials carry, so that one for another service is none for this one.
constexpr absl::string_view kPurpose = "strata.v1";

struct DestroyContext {
  void operator()(munge_ctx* context) const { munge_ctx_destroy(context); }
};
using Context = std::unique_ptr<munge_ctx, DestroyContext>;

struct FreeBytes {
  void operator()(void* bytes) const { std::free(bytes); }
};

absl::Status Refused(munge_err_t error, munge_ctx_t context) {
  const char* const said = munge_ctx_strerror(context);
  const std::string text = absl::StrCat("MUNGE: ", said == nullptr ? munge_strerror(error) : said);
  if (error == EMUNGE_SOCKET || error == EMUNGE_TIMEOUT) return absl::UnavailableError(text);
  return absl::UnauthenticatedError(text);
}

absl::StatusOr<Context> MakeContext(const std::string& socket) {
  Context context(munge_ctx_create());
  if (context == nullptr) return absl::InternalError("MUNGE: no memory");
  const munge_err_t set = socket.empty()
                              ? EMUNGE_SUCCESS
                              : munge_ctx_set(context.get(), MUNGE_OPT_SOCKET, socket.c_str());
  if (set != EMUNGE_SUCCESS) return Refused(set, context.get());
  return context;
}

}  // namespace

absl::StatusOr<std::string> MungeEncode(const std::string& socket) {
  ASSIGN_OR_RETURN(const Context context, MakeContext(socket));
  char* credential = nullptr;
  const munge_err_t error =
      munge_encode(&credential, context.get(), kPurpose.data(), static_cast<int>(kPurpose.size()));
  const std::unique_ptr<char, FreeBytes> owner(credential);
  if (error != EMUNGE_SUCCESS) return Refused(error, context.get());
  return std::string(credential);
}

absl::StatusOr<MungeUser> MungeDecode(const std::string& credential, const std::string& socket) {
  ASSIGN_OR_RETURN(const Context context, MakeContext(socket));
  MungeUser user;
  void* payload = nullptr;
  int size = 0;
  const munge_err_t error =
      munge_decode(credential.c_str(), context.get(), &payload, &size, &user.uid, &user.gid);
  const std::unique_ptr<void, FreeBytes> owner(payload);  // set also with some errors
  if (error != EMUNGE_SUCCESS) return Refused(error, context.get());
  if (absl::string_view(static_cast<const char*>(payload), static_cast<size_t>(size)) != kPurpose) {
    return absl::UnauthenticatedError("MUNGE: the credential is for another service");
  }
  return user;
}

}  // namespace strata::security
