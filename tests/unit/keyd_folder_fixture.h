/*
 * tests/unit/keyd_folder_fixture.h -- the folder of a sijil-keyd, with its key ring and its ledger.
 */
#pragma once

#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "keyd/answer.h"
#include "keyd/keyring.h"
#include "keyd/ledger.h"

struct folder {
    char path[32];
    int fd;
};

static inline void folder_make(struct folder *folder)
{
    *folder = (struct folder){.path = "/dev/shm/sijil-keyd-unit-XXXXXX"};
    assert_non_null(mkdtemp(folder->path));
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder->fd >= 0);
}

static inline void folder_remove(struct folder *folder)
{
    static const char *const names[] = {LEDGER_FILE,
                                        KEYRING_FILE,
                                        "." LEDGER_FILE ".new",
                                        RUN_LEDGER_FILE,
                                        "." RUN_LEDGER_FILE ".new",
                                        "." KEYRING_FILE ".new",
                                        KEY_REGISTER_FILE,
                                        LOG_ROTATION_FILE,
                                        REPLACEMENT_FILE,
                                        "." REPLACEMENT_FILE ".new",
                                        "." LOG_ROTATION_FILE ".new",
                                        "." KEY_REGISTER_FILE ".new",
                                        REGION_KEYDS_FILE};

    for (size_t i = 0; i < COUNT(names); i++) (void)unlinkat(folder->fd, names[i], 0);
    (void)close(folder->fd);
    assert_int_equal(rmdir(folder->path), 0);
}
#define OWNED_FOLDER __attribute__((cleanup(folder_remove))) struct folder

/** The cases of keyd_region_file_cases.c, in the program of test_keyd_region.c. Returns how many failed. */
int keyd_region_file_cases(void);
