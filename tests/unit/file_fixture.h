/*
 * tests/unit/file_fixture.h -- a folder with one file in it. For one source file of a program only: it defines what it
 * declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/sijil-test-XXXXXX";
static char path[64];

static inline int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    (void)snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static inline void write_file(const char *text)
{
    struct error err = {0};

    assert_true(file_replace(path, bytes_of_text(text), 0600, &err).ok);
}
