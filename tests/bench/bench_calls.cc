#include "tests/bench/bench_calls.h"

#include <condition_variable>
#include <mutex>

namespace strata::bench {

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void PassTime(double seconds) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::duration<double>(seconds), [] { return false; });
}

v1::CreateJobRequest Request(const std::string& name) {
  v1::CreateJobRequest request;
  request.set_request_id("request-" + name);
  v1::Job& job = *request.mutable_job();
  job.set_name("jobs/" + name);
  v1::JobSpec& spec = *job.mutable_spec();
  spec.mutable_parallel()->set_data(1);
  spec.mutable_parallel()->set_virtual_shards(1);
  spec.set_name(name);
  spec.mutable_model()->set_family(v1::ModelSpec::FAMILY_LLAMA);
  spec.mutable_model()->set_layers(6);
  spec.mutable_model()->set_hidden(384);
  spec.mutable_model()->set_heads(6);
  spec.mutable_model()->set_ffn(1024);
  spec.mutable_data()->add_train()->set_path("/data/text.txt");
  return request;
}

}  // namespace strata::bench
