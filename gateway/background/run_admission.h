/*
 * gateway/background/run_admission.h -- the thread that admits finished runs (training/admit_jobs.h).
 *
 * It has a database connection and works when PostgreSQL notifies, and every few seconds. It is another thread than that of orders, because an
 * admission stores blobs, and so takes longer.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct run_admission;

/** While the server runs. */
RESULT run_admission_start(struct gateway *gateway, struct run_admission **admission_out, struct error *err);
void run_admission_free(struct run_admission *admission);
DEFINE_OWNED(run_admission);
