/*
 * documents/format/runner_code_file.h -- the file that `sijil runner invite` writes and `sijil-runner enroll` reads.
 *
 *   {"schema": "sijil.runner-code/v1", "code": "sjr_...", "invitation": the signed invitation, "registry": as in registry.json, "ca": PEM}
 *
 * The person that invited hands it to the machine through a channel that others can't read. So the keys in it are better known than keys that the
 * registry shows. It is a secret until the code was used or has expired.
 */
#pragma once

#include "crypto/runner_code.h"
#include "documents/format/registry_pins.h"
#include "documents/format/runner_invitation.h"

#define RUNNER_CODE_FILE_MAX ((size_t)512 * 1024) /* with the certificates of authorities */
#define RUNNER_CODE_CA_MAX   ((size_t)256 * 1024)

struct runner_code_file {
    struct runner_code code;
    struct runner_invitation *invitation;
    struct registry_pins registry;
    struct buffer ca; /* empty: the system's authorities */
};
/**
 * Reads the file. Code, invitation and registry must belong together: one runner, one audience. Verifies no signature. ERROR_INVALID names the
 * member; ERROR_LIMIT, ERROR_NO_MEMORY.
 */
RESULT runner_code_file_read(struct bytes text, struct runner_code_file **file_out, struct error *err);
/** Appends the file. `invitation` is the envelope; `ca` may be empty. Wipe the text when it is no longer needed. */
struct runner_code_parts {
    const char *code;
    struct bytes invitation;
    const struct registry_pins *registry;
    struct bytes ca;
};
RESULT runner_code_file_write(const struct runner_code_parts *parts, struct buffer *text, struct error *err);

void runner_code_file_free(struct runner_code_file *file);
DEFINE_OWNED(runner_code_file);
