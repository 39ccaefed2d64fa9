/*
 * registry/names/reference.h -- names of repositories and tags, and the secret names of upload sessions.
 *
 * Rule: no text from outside becomes part of a statement, a path or an answer before one of these functions has
 * accepted it. All are pure, allocate nothing, and accept any bytes. For digests see crypto/digest.h. OCI
 * Distribution Specification 1.1.1, "Pulling manifests": the grammar of <name> and <reference>.
 */
#pragma once

#include "base/bytes.h"
#include "base/uuid.h"

#define REPOSITORY_SEGMENTS_MAX 32
#define REPOSITORY_PATH_MAX     200 /* below the project, as in the table */
#define NAMESPACE_NAME_MAX      63  /* of an organisation or a project */
#define TAG_MAX                 128

/** "organisation/project/path..."; views of the text that was split. */
struct repository_name {
    struct bytes organisation, project, path;
};

/**
 * OCI's grammar, with 3 to REPOSITORY_SEGMENTS_MAX segments and at most 255 bytes. Organisation and project have at
 * most NAMESPACE_NAME_MAX bytes and single separators. ERROR_INVALID says what is wrong.
 */
RESULT repository_name_split(struct bytes text, struct repository_name *name_out, struct error *err);

/** The name of an organisation or of a project: [a-z0-9]+([._-][a-z0-9]+)*, at most NAMESPACE_NAME_MAX bytes. */
bool namespace_name_is_valid(struct bytes text);

/** [a-zA-Z0-9_][a-zA-Z0-9._-]{0,127} */
bool tag_is_valid(struct bytes text);

/**
 * Writes "sha256-..." for "sha256:...": the tag under which clients store a list of referrers if a registry has no
 * such API (specification, "Referrers Tag Schema": 32 characters of the algorithm, 64 of the hash). `digest` must be
 * well-formed.
 */
void referrers_tag(const char *digest, char tag_out[TAG_MAX + 1]);

/**
 * The last segment of an upload's Location: "<uuid>.<43 characters of base64url>". Only the uuid may be shown or
 * logged. The secret proves that the client has received the Location.
 */
#define UPLOAD_SECRET_SIZE   32
#define UPLOAD_LOCATION_SIZE (36 + 1 + 43 + 1) /* with '\0' */

struct upload_location {
    struct uuid upload;
    uint8_t secret[UPLOAD_SECRET_SIZE]; /* the caller wipes it */
};

/** False for any other form, also for a uuid without a secret. */
bool upload_location_parse(struct bytes text, struct upload_location *location_out);
void upload_location_format(const struct upload_location *location, char text_out[UPLOAD_LOCATION_SIZE]);
