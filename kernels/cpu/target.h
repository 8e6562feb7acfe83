// One source of kernels for several instruction sets: files that include this one (nearly always by
// way of simd.h) are compiled once for each, into a namespace of its own, and what kernels/*.h
// declare calls the one that this process uses (kernels/isa.h).
//
// In a source, what is compiled for each instruction set stands in strata::kernels::STRATA_ISA.
// Below it, in strata::kernels, the functions of the header are listed by
//   STRATA_KERNEL(void, Scale, const Context&, int64_t, float, T*)      templates over T
//   STRATA_PLAIN_KERNEL(int64_t, SumSquaresWorkspaceBytes, int64_t)     others
//   STRATA_KERNEL_OF((typename A, typename B), (A, B), void, ...)       other templates, each of
//   STRATA_INSTANCE(Convert<float, BFloat16>)                        whose instances is named
// with their result, name and types of parameters. No name of the standard library that is not
// inlined may be used: its code could be linked in for other instruction sets
// (kernels/cpu/isolation_test.py).
#ifndef STRATA_KERNELS_CPU_TARGET_H_
#define STRATA_KERNELS_CPU_TARGET_H_

#include "kernels/isa.h"
#include "kernels/number_types.h"

// Set by strata_kernel_library of //bazel:defs.bzl.
#ifdef STRATA_COMPILE_AVX512
#define STRATA_ISA avx512
#else
#define STRATA_ISA avx2
#endif

// Types with names: (a, T1, T2, T3) becomes T1 a, T2 aa, T3 aaa; the names alone are a, aa, aaa.
#define STRATA_PARENTHESES ()
#define STRATA_EXPAND(...) STRATA_EXPAND3(STRATA_EXPAND3(STRATA_EXPAND3(__VA_ARGS__)))
#define STRATA_EXPAND3(...) STRATA_EXPAND2(STRATA_EXPAND2(STRATA_EXPAND2(__VA_ARGS__)))
#define STRATA_EXPAND2(...) STRATA_EXPAND1(STRATA_EXPAND1(STRATA_EXPAND1(__VA_ARGS__)))
#define STRATA_EXPAND1(...) __VA_ARGS__
#define STRATA_PARAMETERS(name, type, ...) \
  type name __VA_OPT__(, STRATA_MORE_PARAMETERS STRATA_PARENTHESES(name##a, __VA_ARGS__))
#define STRATA_MORE_PARAMETERS() STRATA_PARAMETERS
#define STRATA_NAMES(name, type, ...) \
  name __VA_OPT__(, STRATA_MORE_NAMES STRATA_PARENTHESES(name##a, __VA_ARGS__))
#define STRATA_MORE_NAMES() STRATA_NAMES

#define STRATA_UNPACK(...) __VA_ARGS__

#ifdef STRATA_COMPILE_AVX512

#define STRATA_KERNEL_OF(parameters, arguments, result, name, ...)
#define STRATA_PLAIN_KERNEL(result, name, ...)
#define STRATA_INSTANCE(...) template decltype(avx512::__VA_ARGS__) avx512::__VA_ARGS__;

#else

#define STRATA_KERNEL_OF(parameters, arguments, result, name, ...)                               \
  namespace avx512 {                                                                             \
  template <STRATA_UNPACK parameters>                                                            \
  result name(__VA_ARGS__);                                                                      \
  }                                                                                              \
  template <STRATA_UNPACK parameters>                                                            \
  result name(STRATA_EXPAND(STRATA_PARAMETERS(a, __VA_ARGS__))) {                                \
    if (UsesAvx512()) {                                                                          \
      return avx512::name<STRATA_UNPACK arguments>(STRATA_EXPAND(STRATA_NAMES(a, __VA_ARGS__))); \
    }                                                                                            \
    return avx2::name<STRATA_UNPACK arguments>(STRATA_EXPAND(STRATA_NAMES(a, __VA_ARGS__)));     \
  }
#define STRATA_PLAIN_KERNEL(result, name, ...)                                          \
  namespace avx512 {                                                                    \
  result name(__VA_ARGS__);                                                             \
  }                                                                                     \
  result name(STRATA_EXPAND(STRATA_PARAMETERS(a, __VA_ARGS__))) {                       \
    if (UsesAvx512()) return avx512::name(STRATA_EXPAND(STRATA_NAMES(a, __VA_ARGS__))); \
    return avx2::name(STRATA_EXPAND(STRATA_NAMES(a, __VA_ARGS__)));                     \
  }
#define STRATA_INSTANCE(...) template decltype(__VA_ARGS__) __VA_ARGS__;

#endif

#define STRATA_KERNEL(result, name, ...)                         \
  STRATA_KERNEL_OF((typename T), (T), result, name, __VA_ARGS__) \
  STRATA_INSTANCE(name<float>)                                   \
  STRATA_INSTANCE(name<BFloat16>)                                \
  STRATA_INSTANCE(name<Float16>)

#endif  // STRATA_KERNELS_CPU_TARGET_H_
