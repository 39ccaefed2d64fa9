# What programs need beside --coverage to leave their counters behind: tests/support/counters*.c say why.
add_library(sijil_counters STATIC tests/support/counters.c tests/support/counters_sandbox.c)
target_link_libraries(sijil_counters PRIVATE PkgConfig::SECCOMP)
target_link_libraries(sijil_compiler INTERFACE sijil_counters)
target_link_options(sijil_compiler INTERFACE LINKER:--wrap=_exit,--wrap=abort,--wrap=__assert_fail,--wrap=fexecve,-u,__wrap__exit)
