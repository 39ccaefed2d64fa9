/*
 * client/local.h -- files of this machine, apart from what a registry does.
 *
 * base/file.h calls everything that a disk does ERROR_UNAVAILABLE, which for `sijil` means a registry that can't be
 * reached: worth another try, and exit status 5. A folder that can't be written to is neither.
 */
#pragma once

#include "base/result.h"

/** The result of a call of base/file.h about the file `name`: a failure names it, and is ERROR_INVALID where the disk, and no
 *  registry, could not be used. ERROR_NOT_FOUND, ERROR_FULL and the others stay what they are. */
RESULT local(struct result result, const char *name, struct error *err);

/** The same of a file or folder that is written: without a place to write to, nothing that was asked for is missing, so that
 *  ERROR_NOT_FOUND becomes ERROR_INVALID too. */
RESULT local_output(struct result result, const char *name, struct error *err);

/** Puts "NAME: " before the failure's sentence, unless that names it already. */
void failure_name(const char *name, struct error *err);
