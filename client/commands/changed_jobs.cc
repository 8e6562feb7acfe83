#include "client/commands/changed_jobs.h"

#include "client/commands/cluster_call.h"
#include "client/exit_codes.h"
#include "client/views/job_view.h"

namespace strata::client {

void ShowEach(const std::vector<Json>& each, bool list, const std::string& output,
              Terminal& terminal) {
  if (IsStructured(output) && list) {
    terminal.Out(ToText(Json(each), output));
  } else if (IsStructured(output) && !each.empty()) {
    terminal.Out(ToText(each.front(), output));
  }
  if (output != "name") return;
  for (const Json& one : each) terminal.Out(one["name"].get<std::string>() + "\n");
}

int ChangeJobs(const std::vector<std::string>& names, const std::string& output, Terminal& terminal,
               const std::function<absl::StatusOr<v1::Job>(const std::string& resource)>& change,
               const std::function<std::string(const v1::Job&)>& told) {
  std::vector<Json> changed;
  int code = kExitDone;
  for (const std::string& name : names) {
    const absl::StatusOr<v1::Job> job = change(JobResource(name));
    if (!job.ok()) {
      code = FailCallAbout("job", name, job.status(), terminal);
      break;
    }
    changed.push_back(ToJsonWithSpec(*job));
    terminal.Say(told(*job));
  }
  ShowEach(changed, names.size() > 1, output, terminal);
  return code;
}

}  // namespace strata::client
