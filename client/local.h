/*
 * client/local.h -- turns failures of local files into ones that differ from failures of a registry.
 *
 * base/file.h reports disk failures as ERROR_UNAVAILABLE, which for `sijil` means that the registry can't be reached: retry, and exit
 * status 5. A folder that can't be written to is neither.
 */
#pragma once

#include "base/result.h"

/** The result of a call of base/file.h about the file `name`. A failure names the file, and ERROR_UNAVAILABLE becomes ERROR_INVALID.
 *  ERROR_NOT_FOUND, ERROR_FULL and others stay. */
RESULT local(struct result result, const char *name, struct error *err);

/** The same for a file or folder that is written. There, ERROR_NOT_FOUND becomes ERROR_INVALID too, because a missing parent folder is not a
 *  missing artifact. */
RESULT local_output(struct result result, const char *name, struct error *err);
