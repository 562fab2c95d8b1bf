// fmt as an archive, made from headers only: the system's fmt 9, which may be only a shared
// library, and that of LibTorch, which has no library at all. It has the instantiations of fmt's
// own src/format.cc for char, which no other file makes.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE

#if FMT_VERSION < 120000
using detail::locale_ref;  // NOLINT(misc-unused-using-decls): the next lines use it
#endif
template FMT_API locale_ref::locale_ref(const std::locale& locale);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;

namespace detail {

template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;

template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);
#if FMT_VERSION < 100000
template FMT_API void vformat_to(buffer<char>&, string_view,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
#endif

}  // namespace detail
FMT_END_NAMESPACE
