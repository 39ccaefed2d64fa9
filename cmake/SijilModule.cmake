include_guard()
find_package(PkgConfig REQUIRED)

# sijil_package(PqSql libpq>=15): one imported target per pkg-config module, looked up once.
macro(sijil_package name)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${ARGN})
endmacro()

# A Debug build serves tests alone, so its one build of each module has the failures on demand (base/fault.h). Any other
# build may ship: there, they are in a second build of each module, which only tests link.
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(sijil_variants plain)
else()
  set(sijil_variants plain faulty)
endif()

# sijil_module(policy SOURCES a.c b.c HEADERS a.h USES base crypto PACKAGES OPENSSL PUBLIC_PACKAGES JANSSON)
# One folder, one static library. Tests link `sijil_<name>_faulty`, whose allocations and I/O can be made to fail; in a
# Debug build that is `sijil_<name>` itself. `sijil_<name>_libraries` has what is built. HEADERS are what other modules may
# include. PACKAGES are seen by this folder alone; PUBLIC_PACKAGES also by the modules that use it.
function(sijil_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "SOURCES;HEADERS;USES;PACKAGES;PUBLIC_PACKAGES")
  set(libraries "")
  foreach(variant IN LISTS sijil_variants)
    string(REPLACE "_plain" "" suffix "_${variant}")
    set(library sijil_${name}${suffix})
    list(APPEND libraries ${library})
    add_library(${library} STATIC ${module_SOURCES})
    target_sources(${library} PUBLIC FILE_SET HEADERS
      BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${module_HEADERS})
    target_link_libraries(${library} PUBLIC sijil_compiler)
    foreach(used IN LISTS module_USES)
      target_link_libraries(${library} PUBLIC sijil_${used}${suffix})
    endforeach()
    foreach(package IN LISTS module_PACKAGES)
      target_link_libraries(${library} PRIVATE PkgConfig::${package})
    endforeach()
    foreach(package IN LISTS module_PUBLIC_PACKAGES)
      target_link_libraries(${library} PUBLIC PkgConfig::${package})
    endforeach()
  endforeach()
  if(TARGET sijil_${name}_faulty)
    # Nobody ships it or measures it, and it is half of a release build. -O1 is enough for _FORTIFY_SOURCE, whose calls tests replace, too.
    target_compile_options(sijil_${name}_faulty PRIVATE -O1 -g0)
    # Link-time optimisation would inline calls that tests replace (sijil_wrap).
    set_target_properties(sijil_${name}_faulty PROPERTIES EXCLUDE_FROM_ALL ON VERIFY_INTERFACE_HEADER_SETS OFF INTERPROCEDURAL_OPTIMIZATION OFF)
  else()
    add_library(sijil_${name}_faulty ALIAS sijil_${name})
  endif()
  target_compile_definitions(${library} PUBLIC SIJIL_FAULTS=1) # the last one: the faulty one, or the only one
  set(sijil_${name}_libraries ${libraries} PARENT_SCOPE)
endfunction()

# sijil_test(label USES policy): tests/unit/<this folder>/test_label.c, linked to that module
# alone. What the module has not declared that it uses does not link.
function(sijil_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "LABEL" "USES")
  add_executable(test_${name} test_${name}.c)
  target_link_libraries(test_${name} PRIVATE PkgConfig::CMOCKA)
  foreach(used IN LISTS test_USES)
    target_link_libraries(test_${name} PRIVATE sijil_${used}_faulty)
  endforeach()
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES LABELS "unit")
endfunction()

# sijil_wrap(test_keyd_client poll recv): calls of `poll` in this target go to its own __wrap_poll. Its sources are compiled without
# link-time optimisation, or the linker would drop the stand-ins before it meets their callers. The target `wrapping` has all of these,
# so CI sees that they can be linked in a release build, too.
add_custom_target(wrapping)
function(sijil_wrap target)
  foreach(call IN LISTS ARGN)
    target_link_options(${target} PRIVATE LINKER:--wrap=${call})
  endforeach()
  set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
  add_dependencies(wrapping ${target})
endfunction()

# sijil_fuzzer(policy_document USES policy): with clang a libFuzzer target; always a test that
# replays the seed corpus, so that the corpus never rots.
function(sijil_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 fuzz "" "" "USES")
  add_executable(fuzz_${name} fuzz_${name}.c)
  foreach(used IN LISTS fuzz_USES)
    target_link_libraries(fuzz_${name} PRIVATE sijil_${used})
  endforeach()
  if(SIJIL_FUZZERS)
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    # libFuzzer writes into the first folder: never into the one that is checked in.
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/grown/${name}")
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} -runs=20000
      "${CMAKE_CURRENT_BINARY_DIR}/grown/${name}" "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
  else()
    target_sources(fuzz_${name} PRIVATE $<TARGET_OBJECTS:sijil_replay>)
    file(GLOB seeds CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}/*")
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${seeds})
  endif()
  set_tests_properties(fuzz_${name} PROPERTIES LABELS "fuzz")
endfunction()
