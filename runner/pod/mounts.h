/*
 * runner/pod/mounts.h -- whether anything is mounted in the payload's container that should not be there (proc(5), mountinfo).
 *
 * An image may name volumes, and the container runtime then mounts folders of the node's disk, writable, wherever the image says, also over what the
 * runtime or the job has put there. So only known places may be written to, each with its kind of file system.
 */
#pragma once

#include "base/bytes.h"

/** What is open, as a text for a person, or NULL. `gate` is the folder that both sides share. The text is valid until the next call. */
const char *mounts_what_is_open(const char *gate);
/** The same, of the content of a mountinfo; it looks at the files that it names. */
const char *mounts_open_in(struct bytes mountinfo, const char *gate);
