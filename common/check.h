// STRATA_CHECK: ends the process when an invariant of the program itself is broken. Never for
// outside input, which gets an absl::Status. Stays on in every build.
#ifndef STRATA_COMMON_CHECK_H_
#define STRATA_COMMON_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define STRATA_CHECK(condition)                                                              \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#endif  // STRATA_COMMON_CHECK_H_
