/* layers: storage/s3_http.h
 * reach: rogue.c reads storage/s3_http.h
 * reach: rogue.c needs s3_call\(\), which works without a permit
 * Deletes an object of a bucket. */
#include "gateway/pipeline/request.h"
#include "storage/s3_http.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    const struct s3_options options = {.endpoint = "https://s3.example", .bucket = "models", .location = "me-central-1"};
    const struct s3_request deletion = {.method = "DELETE", .key = request->reference};
    struct s3_answer answer = S3_ANSWER(1000);
    OWNED(s3) *s3 = NULL;

    (void)pg;
    TRY(s3_new(&options, &s3, err));
    return s3_call(s3, &deletion, &answer, err);
}
