// FunctionRef: a borrowed callable, two words, never allocates. The callable must outlive the call
// it is passed to; a FunctionRef is for parameters, not for keeping.
#ifndef STRATA_DEVICE_FUNCTION_REF_H_
#define STRATA_DEVICE_FUNCTION_REF_H_

#include <memory>
#include <type_traits>
#include <utility>

namespace strata::device {

template <typename Signature>
class FunctionRef;

template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
           std::is_invocable_r_v<Result, Callable&, Args...>)
      // A lambda is passed where a FunctionRef is wanted; copies are excluded above.
      // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload)
      FunctionRef(Callable&& callable)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(
              std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_FUNCTION_REF_H_
