// The environment that trainers are started with: what their libraries and this machine need, and
// nothing else of the agent's (which may hold credentials that no job is to see).
#ifndef STRATA_WORKER_AGENT_TRAINERS_TRAINER_ENVIRONMENT_H_
#define STRATA_WORKER_AGENT_TRAINERS_TRAINER_ENVIRONMENT_H_

#include <string>
#include <vector>

namespace strata::worker {

// Of `own` ("NAME=VALUE", ended by null) what passes: PATH, HOME, USER, LANG, LC_*, TZ, TMPDIR, the
// loader's LD_*, and the settings of Strata, of its libraries and of the sanitizers (STRATA_*,
// OMP_*, UCX_*, DNNL_*, CUDA_*, NCCL_*, ASAN_OPTIONS and its like). `instead` ("NAME=VALUE") takes
// the place of what has the same names.
std::vector<std::string> TrainerEnvironment(char** own,
                                            const std::vector<std::string>& instead = {});

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINERS_TRAINER_ENVIRONMENT_H_
