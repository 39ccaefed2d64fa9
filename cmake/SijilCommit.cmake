# Writes HEADER with the commit of SOURCE, and only if it is another than it was: cmake -DSOURCE= -DCOMMIT= -DHEADER= -P this
cmake_minimum_required(VERSION 3.25)
if(COMMIT STREQUAL "")
  set(COMMIT unknown)
  # A copy without .git may lie inside somebody else's repository.
  if(EXISTS "${SOURCE}/.git")
    execute_process(COMMAND "${CMAKE_COMMAND}" -E env GIT_OPTIONAL_LOCKS=0 git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
      OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status ERROR_QUIET)
    if(status EQUAL 0)
      set(COMMIT "${said}")
    endif()
  endif()
endif()
if(NOT COMMIT MATCHES "^[0-9A-Za-z._+-]+$")
  message(FATAL_ERROR "SIJIL_COMMIT = ${COMMIT}: letters, digits and . _ + -")
endif()
file(CONFIGURE OUTPUT "${HEADER}" CONTENT "#define SIJIL_COMMIT \"@COMMIT@\"\n" @ONLY)
