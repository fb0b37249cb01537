"""The paper's claims: what each says as data, the statistics that decide it, the verdicts."""
