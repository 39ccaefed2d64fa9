#include "training/format/artifact_types.h"

#include <string.h>
#include <strings.h>

bool run_artifact_is_reserved(const char *media_type)
{
    return strncasecmp(media_type, RUN_TYPES_RESERVED, strlen(RUN_TYPES_RESERVED)) == 0; /* RFC 6838, 4.2: case does not matter */
}
