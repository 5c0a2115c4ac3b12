"""Every panel and every recording rule, asked on a real Prometheus that scraped the running stack."""
